package redlock

import "time"

// The rules on what a lock may do on a node, and on whether the node keeps time and keys.

func (s *survey) noKeyPermission(f *facts) remark {
	switch denialIn(f.set) {
	case commandDenied:
		return critical("the node's user may not run SET, so it can take no lock (%s): give it the rights named in docs/design.md", replyText(f.set))
	case keyDenied:
		return warning("the node's user may not write the key that was tried, so whether it may write those of locks is unknown, as is what depends on that; " +
			"WithKeyPrefix puts all keys where it may")
	}
	return remark{}
}

func (s *survey) noScriptPermission(f *facts) remark {
	for _, step := range []struct {
		what string
		err  error
	}{{"SCRIPT LOAD", f.scriptLoad}, {"the renew script", f.renewal}, {"the release script", f.release}} {
		if denialIn(step.err) == commandDenied || answered(step.err, "NOSCRIPT") {
			return critical("the node's user may not run %s (%s): locks cannot be renewed or released; it needs SCRIPT LOAD, EVALSHA, and GET, SET, DEL, EXISTS, PTTL, PEXPIRE",
				step.what, replyText(step.err))
		}
	}
	return remark{}
}

func (s *survey) noPublishPermission(f *facts) remark {
	if f.publish == nil {
		return remark{}
	}
	return warning("nobody can be woken there (PUBLISH: %s): who waits for a lock tries again and again; allow PUBLISH and SUBSCRIBE on the channels redlock/*", replyText(f.publish))
}

// probeFailed is about failures that no other rule explains.
func (s *survey) probeFailed(f *facts) remark {
	if s.replica(f).text != "" || s.clusterMode(f).text != "" {
		return remark{}
	}
	for _, step := range []struct {
		what string
		err  error
	}{{"SET", f.set}, {"SCRIPT LOAD", f.scriptLoad}, {"the renew script", f.renewal}, {"the release script", f.release}} {
		switch {
		case step.err == nil || denialIn(step.err) != allowed || answered(step.err, "NOSCRIPT"):
		case f.set != nil && (step.err == errMissing || step.err == errHealed): // as it must be
		case f.set == nil && f.expiry.isBroken(s.drift):
		default:
			return critical("no lock can be had there just now: %s ended with: %s", step.what, clean(step.err.Error()))
		}
	}
	return remark{}
}

// isBroken reports whether a node did not keep the probe key for its ttl, or would keep it longer.
func (e expiry) isBroken(d drift) bool {
	left := millis(e.millis)
	return e.known && (e.millis == -1 || left > probeTTL || left < probeTTL-e.within-d.allowance(probeTTL))
}

func (s *survey) noExpiryPrecision(f *facts) remark {
	const advice = "keys there do not end when they should, so locks can be lost early or block for long; use Redis, Valkey or Memurai"
	switch e := f.expiry; {
	case !e.isBroken(s.drift):
		return remark{}
	case e.millis == -1:
		return critical("a key set for %v has no expiry: %s", probeTTL, advice)
	case e.millis < 0:
		return critical("a key set for %v was gone after %v at most: %s", probeTTL, round3(e.within), advice)
	default:
		return critical("a key set for %v had %d ms left after %v at most: %s", probeTTL, e.millis, round3(e.within), advice)
	}
}

func (s *survey) noRunID(f *facts) remark {
	if f.Err != nil || f.RunID != unknown {
		return remark{}
	}
	return warning("does not tell its run_id (INFO is forbidden or unknown there): neither are its restarts seen, nor that it is given twice; allow INFO")
}

func (s *survey) forgetsOnRestart(f *facts) remark {
	const fact = "forgets keys in a restart, as it does not write each to disk before it answers"
	switch {
	case f.Persistence == unknown || f.Persistence == "appendfsync always":
		return remark{}
	case s.guard == GuardOff:
		return critical(fact + ", and GuardOff counts its votes all the same: use GuardAuto, or appendonly yes with appendfsync always")
	case f.RunID == unknown:
		return critical(fact + ", and the restart guard cannot see it: allow INFO, or use appendonly yes with appendfsync always")
	}
	return info(fact + "; the restart guard allows for that")
}

// youngAge is the uptime below which a node is told of; WithMaxTTL can raise it.
const youngAge = time.Minute

// age returns how long ago a node started, as far as that is known to be recent.
func (s *survey) age(f *facts) (age time.Duration, young bool) {
	age = f.Uptime
	if f.restartSeen >= 0 && (age < 0 || f.restartSeen < age) {
		age = f.restartSeen
	}
	return age, age >= 0 && age < max(youngAge, s.maxTTL)
}

func (s *survey) restartedRecently(f *facts) remark {
	age, young := s.age(f)
	if !young {
		return remark{}
	}
	all := s.every(func(f *facts) bool { _, young := s.age(f); return young })
	what, weigh := "was started %v ago: ", warning
	if f.restartSeen >= 0 {
		what = "restarted %v ago, while this process ran: "
	}
	if all {
		weigh = info
	}
	return weigh(what+s.guardsAnswer(f), round3(age))
}

// guardsAnswer says what the restart guard makes of a young node's votes.
func (s *survey) guardsAnswer(f *facts) string {
	switch {
	case s.guard == GuardOff:
		return "its votes count (GuardOff), even if it forgot keys that are held"
	case f.RunID == unknown:
		return "its votes count, as it does not tell its run_id, even if it forgot keys that are held"
	case s.together && s.guard == GuardAuto && f.restartSeen < 0:
		return "all nodes were started together, which the guard takes for a new deployment, so that its votes count; after a power cut wait for the longest ttl, or use GuardStrict"
	}
	return "the guard withholds its acquire votes until that is longer than the ttl asked for (or WithMaxTTL); nothing need be done but to know why it restarted"
}

// clockTolerance is what clocks may differ by, beside the error of measuring.
const clockTolerance = time.Second

func (f *facts) isOff() bool {
	return f.ClockError >= 0 && f.ClockOffset.Abs() > f.ClockError+clockTolerance
}

// allOff reports whether several nodes are off by about the same, and no node is not.
func (s *survey) allOff() bool {
	var least, most *facts
	known := 0
	for i := range s.nodes {
		f := &s.nodes[i]
		if f.ClockError < 0 {
			continue
		}
		known++
		if !f.isOff() {
			return false
		}
		if least == nil || f.ClockOffset < least.ClockOffset {
			least = f
		}
		if most == nil || f.ClockOffset > most.ClockOffset {
			most = f
		}
	}
	return known > 1 && most.ClockOffset-least.ClockOffset <= clockTolerance+most.ClockError+least.ClockError
}

const clockAdvice = "a later correction in one step ends keys early or late, and fences are proposed by the time of day; set it right, slowly, and run a time service"

func (s *survey) clockOffsetOfAll() remark {
	if !s.allOff() {
		return remark{}
	}
	for i := range s.nodes {
		if f := &s.nodes[i]; f.ClockError >= 0 {
			return warning("all nodes are %s this machine's clock by about the same, so it is most likely this clock that is wrong: %s", aheadOrBehind(f), clockAdvice)
		}
	}
	return remark{}
}

func (s *survey) clockOffset(f *facts) remark {
	if !f.isOff() || s.allOff() {
		return remark{}
	}
	return warning("its clock is %s this machine's, give or take %v: %s", aheadOrBehind(f), round3(f.ClockError), clockAdvice)
}

func aheadOrBehind(f *facts) string {
	d := round3(f.ClockOffset.Abs()).String()
	if f.ClockOffset < 0 {
		return d + " behind"
	}
	return d + " ahead of"
}

func (s *survey) slowForTimeout(f *facts) remark {
	if f.RoundTrip <= s.nodeTimeout/10 {
		return remark{}
	}
	return warning("its round trip of %v is above a tenth of the node timeout (%v), so a little load costs its vote: use WithNodeTimeout(%v) or more, or a nearer node",
		round3(f.RoundTrip), s.nodeTimeout, round3(10*f.RoundTrip))
}
