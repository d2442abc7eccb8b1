/*
 * Says to AddressSanitizer that what is cloned next runs on a stack of its own. Nothing without it.
 *
 * It knows a thread's stack from the thread's start, and before each call that does not return it
 * cleans its shadow from the stack pointer up to the top of that stack. On any other stack that
 * range makes no sense to it, so it warns; but the init of a box, cloned on such a stack, has by
 * then left the host's files behind and closed its descriptors: the log cannot be opened, and the
 * sanitizer ends the process instead. Tasks that only return (base/child.c, netns.c) need none of
 * this.
 *
 * The task of a clone(2) with CLONE_VM | CLONE_VFORK shares the caller's thread data, that of the
 * sanitizer included, while the caller sleeps. So both switches are the caller's, round the call;
 * a clone3(2) without CLONE_VM in the task copies what was said. Frames for the detection of use
 * after return belong to the thread as well: the caller's are put aside, and the task's go with it.
 *
 * Source: <sanitizer/common_interface_defs.h>, "Fiber annotation interface".
 */
#ifndef FH_SANDBOX_OWN_STACK_H
#define FH_SANDBOX_OWN_STACK_H

#include <stddef.h>

#ifdef __SANITIZE_ADDRESS__
#define FH_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FH_ADDRESS_SANITIZER
#endif
#endif

#ifdef FH_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

/* The caller's stack, as the sanitizer knows it. */
struct own_stack {
	void *frames;
	const void *bottom;
	size_t size;
};

/* Neither is checked itself: its frame must not be of the kind that it exchanges. */
#define OWN_STACK_FUNCTION static inline void __attribute__((no_sanitize_address))

/* Before the clone: the task will have the `size` bytes at `stack`. Until own_stack_leave() the
 * caller does nothing but clone. */
OWN_STACK_FUNCTION own_stack_enter(struct own_stack *caller, const void *stack, size_t size)
{
#ifdef FH_ADDRESS_SANITIZER
	__sanitizer_start_switch_fiber(&caller->frames, stack, size);
	__sanitizer_finish_switch_fiber(NULL, &caller->bottom, &caller->size);
#else
	(void)caller;
	(void)stack;
	(void)size;
#endif
}

/* After it, when the task has ended or has not come to be. */
OWN_STACK_FUNCTION own_stack_leave(struct own_stack *caller)
{
#ifdef FH_ADDRESS_SANITIZER
	__sanitizer_start_switch_fiber(NULL, caller->bottom, caller->size);
	__sanitizer_finish_switch_fiber(caller->frames, NULL, NULL);
#else
	(void)caller;
#endif
}

#endif
