/*
 * Loaded before a server's own libraries, this gives the process skewed clocks. What they show is worked
 * out from a page in a file, named by REDISTEST_CLOCK, that the test maps as well: see clock_linux.go.
 *
 * All clocks come from one reading of the true monotonic clock, so that they agree with each other: with
 * anchor, shown and rate from the page, the monotonic clocks show shown + (now - anchor) * rate, and the
 * wall clocks that plus wall. CPU-time clocks are left true.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

struct page {
	uint64_t version; /* odd while the rest changes */
	int64_t anchor;
	int64_t shown;
	int64_t wall;
	double rate;
	int64_t reader;
};

static struct page *the_page;

/* A system call, not the C library's function: finding that one could allocate, and allocators read clocks. */
static int true_clock(clockid_t id, struct timespec *ts) {
	return syscall(SYS_clock_gettime, id, ts);
}

/* Returns the page, mapped at the first reading of a clock (others' constructors may come before any of
 * ours), or NULL where there is none: the test then finds no reader in it and says so. */
static struct page *page(void) {
	struct page *p = __atomic_load_n(&the_page, __ATOMIC_ACQUIRE);
	if (p != NULL)
		return p;
	int saved = errno;
	const char *path = getenv("REDISTEST_CLOCK");
	int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd >= 0) {
		void *mapped = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
		if (mapped != MAP_FAILED) {
			p = mapped;
			__atomic_store_n(&p->reader, getpid(), __ATOMIC_RELAXED);
			__atomic_store_n(&the_page, p, __ATOMIC_RELEASE);
		}
	}
	errno = saved;
	return p;
}

/* Reads both skewed clocks, in nanoseconds. */
static void skewed(struct page *p, int64_t *monotonic, int64_t *wall) {
	for (;;) {
		uint64_t version = __atomic_load_n(&p->version, __ATOMIC_ACQUIRE);
		if (version % 2 == 0) {
			double rate;
			struct timespec now = {0, 0};
			int64_t anchor = __atomic_load_n(&p->anchor, __ATOMIC_RELAXED);
			int64_t shown = __atomic_load_n(&p->shown, __ATOMIC_RELAXED);
			int64_t less = __atomic_load_n(&p->wall, __ATOMIC_RELAXED);
			__atomic_load(&p->rate, &rate, __ATOMIC_RELAXED);
			true_clock(CLOCK_MONOTONIC, &now);
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
			if (__atomic_load_n(&p->version, __ATOMIC_RELAXED) == version) {
				int64_t elapsed = now.tv_sec * SECOND + now.tv_nsec - anchor;
				*monotonic = shown + (int64_t)((double)elapsed * rate);
				*wall = *monotonic + less;
				return;
			}
		}
		sched_yield();
	}
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	struct page *p = page();
	int64_t monotonic, wall, shown;
	if (p == NULL)
		return true_clock(id, ts);
	switch (id) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
		skewed(p, &monotonic, &wall);
		shown = wall;
		break;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_BOOTTIME:
		skewed(p, &monotonic, &wall);
		shown = monotonic;
		break;
	default:
		return true_clock(id, ts);
	}
	ts->tv_sec = shown / SECOND;
	ts->tv_nsec = shown % SECOND;
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	struct timespec ts;
	(void)zone; /* obsolete, and no server asks for it */
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *where) {
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0)
		return (time_t)-1;
	if (where != NULL)
		*where = ts.tv_sec;
	return ts.tv_sec;
}
