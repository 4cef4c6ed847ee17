/* SPDX-License-Identifier: MIT */
/* pthread.h, of what the simulated device uses: a mutex. */
#ifndef WEIR_KERNEL_PTHREAD_H
#define WEIR_KERNEL_PTHREAD_H
#include <linux/mutex.h>

typedef struct mutex pthread_mutex_t;

static inline int weir_pthread_init(struct mutex *mutex)
{
	mutex_init(mutex);
	return 0;
}

#define pthread_mutex_init(mutex, attributes) weir_pthread_init(mutex)
#define pthread_mutex_lock(mutex) mutex_lock(mutex)
#define pthread_mutex_unlock(mutex) mutex_unlock(mutex)
#define pthread_mutex_destroy(mutex) mutex_destroy(mutex)
#endif
