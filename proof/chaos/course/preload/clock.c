/* Changes the wall clock of one process: loaded before the C library, it adds to every reading of the real-time clock what
   the file named by CHAOS_CLOCK says. The file is mapped, so a change takes effect at once, and outlives the process.
   The monotonic clock is left alone, as a real step leaves it alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* All in nanoseconds. From start on, the clock gains so much a second, for the time of slew; then it loses that again. */
static volatile struct clock {
	int64_t offset, gains, start, slew;
} *wrong;

__attribute__((constructor)) static void chaos_map(void) {
	const char *path = getenv("CHAOS_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof *wrong, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED)
		wrong = p;
}

/* By how much the clock is wrong now. */
static int64_t chaos_error(void) {
	int64_t error = wrong->offset;
	struct timespec now;
	if (wrong->gains && !syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now)) {
		int64_t ran = (now.tv_sec * 1000000000LL + now.tv_nsec - wrong->start) % (2 * wrong->slew);
		error += (ran < wrong->slew ? ran : 2 * wrong->slew - ran) / 1000 * wrong->gains / 1000000;
	}
	return error;
}

static void chaos_step(struct timespec *ts) {
	if (!wrong)
		return;
	int64_t error = chaos_error();
	int64_t ns = ts->tv_nsec + error % 1000000000;
	ts->tv_sec += error / 1000000000;
	if (ns < 0) {
		ns += 1000000000;
		ts->tv_sec--;
	} else if (ns >= 1000000000) {
		ns -= 1000000000;
		ts->tv_sec++;
	}
	ts->tv_nsec = ns;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	int failed = syscall(SYS_clock_gettime, id, ts);
	if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		chaos_step(ts);
	return failed;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	(void)tz;
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts))
		return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *to) {
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	if (to)
		*to = ts.tv_sec;
	return ts.tv_sec;
}
