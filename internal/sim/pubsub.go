package sim

import "slices"

// Messages are published here and not by miniredis, which hands them to a goroutine for each
// subscriber: the order of what a link carries would be random.

// subscribe is SUBSCRIBE; node.mu is held, as below.
func (s *session) subscribe(channels []string) {
	for _, channel := range channels {
		s.channels = append(s.channels, channel)
		s.node.subscribers[channel] = append(s.node.subscribers[channel], s)
		s.reply([]any{"subscribe", channel, len(s.channels)})
	}
}

func (s *session) unsubscribe() {
	for _, channel := range s.channels {
		left := slices.DeleteFunc(s.node.subscribers[channel], func(t *session) bool { return t == s })
		s.node.subscribers[channel] = left
		if len(left) == 0 {
			delete(s.node.subscribers, channel)
		}
	}
	s.channels = nil
}

// wakeUp is a message that a node has sent to a client; whether it arrives is another matter.
type wakeUp struct {
	client int
	text   string
}

// publish is PUBLISH. Who has gone without a word still counts as a subscriber.
func (n *node) publish(channel, text string) (subscribers int) {
	for _, s := range n.subscribers[channel] {
		s.reply([]any{"message", channel, text})
		s.mu.Lock()
		s.flush()
		s.mu.Unlock()
		n.published = append(n.published, wakeUp{s.conn.client, text})
	}
	return len(n.subscribers[channel])
}
