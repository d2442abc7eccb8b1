/*
 * Who lives in the box, and what becomes of it; see home.h.
 */
#include "keeper/home.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/checkpoints.h"
#include "keeper/net.h"
#include "keeper/session.h"
#include "keeper/spawner.h"

struct home *home_new(struct session *root)
{
	struct home *home = mem_zalloc(sizeof(*home));

	home->root = home->sessions = root;
	home->spawner = root->spawner;
	home->share.fd = -1;
	root->home = home;
	return home;
}

void home_free(struct home *home)
{
	if (!home)
		return;
	net_free(home->net);
	share_close(&home->share);
	free(home->runtime);
	free(home);
}

/* --- coming and going --------------------------------------------------------------------------
 */

/* The numbers of a policy that may change while a session lives. */
static void take_numbers(struct policy *policy, const struct policy *from)
{
	policy->processes_max = from->processes_max;
	policy->files_max = from->files_max;
	policy->file_bytes_max = from->file_bytes_max;
	policy->tmp_bytes_max = from->tmp_bytes_max;
	policy->memory_bytes_max = from->memory_bytes_max;
	policy->disk_bytes_max = from->disk_bytes_max;
	policy->disk_inodes_max = from->disk_inodes_max;
	policy->cpus = from->cpus;
	policy->cpu_s_max = from->cpu_s_max;
}

void home_take_box(struct session *session, const struct session *from)
{
	take_numbers(&session->policy, &from->policy);
	session->box = from->box;
	session->box_limits = from->box_limits;
	session->built_limits = from->built_limits;
	session->built_family = from->built_family;
	free(session->tier_reason);
	session->tier_reason = from->tier_reason ? mem_string(from->tier_reason) : NULL;
	free(session->tmp);
	session->tmp = from->tmp ? mem_string(from->tmp) : NULL;
	session->policy.tmp = session->tmp;
}

void home_join(struct session *branch, const struct session *parent)
{
	struct home *home = parent->home;

	branch->home = home;
	branch->loop = parent->loop;
	branch->spawner = parent->spawner;
	branch->guests = parent->guests;
	branch->guard = home->root->guard;
	branch->confined = parent->confined;
	branch->environment = json_keep(parent->environment);
	branch->family = parent->family < 0 ? -1 : fcntl(parent->family, F_DUPFD_CLOEXEC, 0);
	branch->pool_fd = -1;
	branch->foreign = parent->foreign;
	branch->reach = home->root->reach;
	branch->python = mem_string(parent->python);
	branch->cold_script = mem_string(parent->cold_script);
	branch->guest_folder = mem_string(parent->guest_folder);
	branch->packages = parent->packages ? mem_string(parent->packages) : NULL;
	branch->brand = ++home->last_brand;
	branch->box = parent->box;
	branch->next_in_home = home->sessions;
	home->sessions = branch;
}

static void wake_waiting(struct home *home)
{
	for (struct session *s = home->sessions; s; s = s->next_in_home) {
		if (!s->waits_for_box)
			continue;
		s->waits_for_box = false;
		session_later(s);
	}
}

void home_leave(struct session *session)
{
	struct home *home = session->home;

	session->left_home = true;
	home_gave_up(session);
	if (home->builder == session)
		home->builder = NULL;
}

int home_dirfd(const struct session *session)
{
	return session->home ? session->home->root->dirfd : session->dirfd;
}

void home_ended(struct session *session)
{
	struct home *home = session->home;
	struct session **at = &home->sessions;

	while (*at != session)
		at = &(*at)->next_in_home;
	*at = session->next_in_home;
	if (session != home->root) {
		session->next_in_home = home->ended;
		home->ended = session;
	}
	if (!home->sessions)
		uv_stop(home->root->loop);
}

void home_let_spawner_go(struct session *session)
{
	struct home *home = session->home;
	const struct session *other = home->sessions;

	session->spawner = NULL;
	while (other && !other->spawner)
		other = other->next_in_home;
	if (other)
		return;
	spawner_free(home->spawner);
	home->spawner = NULL;
}

size_t home_count(const struct home *home)
{
	size_t count = 0;

	for (const struct session *s = home->sessions; s; s = s->next_in_home)
		count += !s->left_home;
	return count;
}

bool home_is_shared(const struct session *session)
{
	return session->home && home_count(session->home) > (session->left_home ? 0 : 1);
}

int home_check_alone(const struct session *session, const char *what, struct err *err)
{
	if (!home_is_shared(session))
		return 0;
	return err_set(err, ERR_BUSY,
		       "%zu sessions share this box: %s cannot change before the others have "
		       "stopped",
		       home_count(session->home), what);
}

/* --- the box -----------------------------------------------------------------------------------
 */

void home_share(struct session *session)
{
	struct home *home = session->home;

	for (struct session *s = home->sessions; s; s = s->next_in_home)
		if (s != session && !s->left_home)
			home_take_box(s, session);
	home->builder = NULL;
	wake_waiting(home);
}

/* Whether its interpreter is in the old box, or on its way there, and its end has not been told. */
static bool is_in_the_old_box(const struct session *session)
{
	return !session->left_home && !session->waits_for_box && session->state != SESSION_BROKEN &&
	       session->engine;
}

/* Not all may have it: the last that was built was perhaps never shared. */
static void release_old_box(struct home *home, struct session *builder)
{
	struct box *box = NULL;

	for (struct session *s = home->sessions; s; s = s->next_in_home) {
		if (s->left_home)
			continue;
		session_release_engine(s);
		box = s->box ? s->box : box;
		s->box = NULL;
	}
	builder->box = box;
	session_release_box(builder);
}

bool home_may_build(struct session *session)
{
	struct home *home = session->home;

	if (home->builder == session)
		return true;
	session->waits_for_box = true;
	if (home->builder)
		return false;
	for (const struct session *s = home->sessions; s; s = s->next_in_home)
		if (is_in_the_old_box(s))
			return false;
	session->waits_for_box = false;
	home->builder = session;
	release_old_box(home, session);
	return true;
}

void home_gave_up(struct session *session)
{
	struct home *home = session->home;

	if (home->builder == session)
		home->builder = NULL;
	if (!home->builder)
		wake_waiting(home);
}

/* --- telling -----------------------------------------------------------------------------------
 */

void home_tell_network(struct home *home, struct json *body)
{
	bool alone = home_count(home) == 1;

	for (struct session *s = home->sessions; s; s = s->next_in_home) {
		/* Before the first event, or after the last but one, there is no journal to tell it
		 * in. */
		if (!s->opened || record_is_closing(s->record))
			continue;
		record_body(s->record, EVENT_NETWORK, alone && s->running ? s->running->id : NULL,
			    json_keep(body));
	}
	json_free(body);
}
