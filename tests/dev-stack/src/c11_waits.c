/* Preloaded beside libfaketime, which knows pthread_cond_timedwait: the C library's cnd_timedwait, by which librdkafka waits, would wait
 * past it for a time of the real clock. Both kinds of objects are the same here. */
#include <errno.h>
#include <pthread.h>
#include <threads.h>

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    switch (pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until)) {
    case 0: return thrd_success;
    case ETIMEDOUT: return thrd_timedout;
    default: return thrd_error;
    }
}
