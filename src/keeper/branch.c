/*
 * Making a branch, and its end; see branch.h.
 *
 * The directory is made by this process, inside of its first session's, because that is where it
 * may write; the spawner makes what leads there (journal/branches.h). Until it is born the branch
 * has a socket, and clients that come wait for its greeting, as with any session that starts.
 */
#include "keeper/branch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "journal/branches.h"
#include "journal/names.h"
#include "keeper/checkpoints.h"
#include "keeper/home.h"
#include "keeper/monitor.h"
#include "keeper/session.h"
#include "keeper/shell.h"
#include "keeper/spawner.h"

enum { TRIES_MAX = 3 };

/* A request that waits. */
struct fork {
	struct fork *next;
	char *name;
	struct client *client;
	struct json *id;
};

struct branch {
	int folder, lock;
	bool linked;           /* the spawner knows of it */
	struct client *client; /* who has asked, until it is answered */
	struct json *id;
	char *parent; /* the session's id */
	char own[HASH_ID_SIZE];
	uint32_t number;
	unsigned tries;
};

static void fork_free(struct fork *fork)
{
	client_drop(fork->client);
	json_free(fork->id);
	free(fork->name);
	free(fork);
}

static struct json *id_or_null(const char *id)
{
	return id ? json_new_string(id, strlen(id)) : NULL;
}

uint32_t branch_first_cell(const struct json *session_event)
{
	int64_t cells = json_get_int(json_get(session_event, "parent"), "cells", 0);

	return cells > 0 && cells < UINT32_MAX / 2 ? (uint32_t)cells + 1 : 1;
}

/* --- its directory ------------------------------------------------------------------------------
 */

/* session.json: that of the parent, but for who it is. The disk has it with the journal's first
 * sync. */
static int write_config(const struct session *parent, const struct session *branch,
			struct json *origin, const char *id, const char *name, struct err *err)
{
	cleanup_buf struct buf bytes = BUF_INIT, text = BUF_INIT;
	cleanup_json struct json *object = NULL;
	char created[CLOCK_TEXT_SIZE];
	cleanup_fd int file = -1;

	if (file_read(parent->dirfd, "session.json", CONFIG_BYTES_MAX, &bytes, err) != 0)
		return -1;
	object = json_parse(buf_bytes(&bytes), bytes.len, &JSON_LIMITS, err);
	if (!object)
		return err_wrap(err, "session.json");
	clock_format(clock_wall_us(), created);
	json_set_string(object, "id", id);
	json_set(object, "name", id_or_null(name));
	json_set_string(object, "created", created);
	json_set_string(object, "python", parent->config.python);
	json_set(object, "parent", json_keep(origin));
	json_write(&text, object);
	buf_append_char(&text, '\n');
	file = openat(branch->dirfd, "session.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return err_sys(err, "cannot make session.json");
	return file_write_all(file, buf_bytes(&text), text.len, err);
}

static int make_directory(struct session *branch, const char *id, struct err *err)
{
	struct branch *birth = branch->branch;
	int root = home_dirfd(branch);

	if (mkdirat(root, BRANCHES_FOLDER, 0700) != 0 && errno != EEXIST)
		return err_sys(err, "cannot make a folder for branches");
	birth->folder =
		openat(root, BRANCHES_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (birth->folder < 0 || mkdirat(birth->folder, id, 0700) != 0)
		return err_sys(err, "cannot make the directory of a branch");
	branch->dirfd = openat(birth->folder, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (branch->dirfd < 0)
		return err_sys(err, "cannot open the directory of a branch");
	birth->lock = file_lock(branch->dirfd, "lock", err);
	return birth->lock < 0 ? -1 : 0;
}

/* --- its end ------------------------------------------------------------------------------------
 */

/* As on_released() of main.c: the name first. */
static void on_released(void *data)
{
	struct session *branch = data;
	struct branch *birth = branch->branch;
	bool unborn = !branch->opened;

	if (birth->linked && branch->spawner)
		spawner_part(branch->spawner, birth->own, branch->config.name, unborn);
	if (unborn && birth->folder >= 0)
		(void)file_remove_tree(birth->folder, birth->own, NULL);
	if (birth->lock >= 0)
		close(birth->lock);
	birth->lock = -1;
	home_let_spawner_go(branch);
}

static void on_ended(void *data)
{
	home_ended(data);
}

static void answer_free(struct branch *birth)
{
	if (birth->client)
		client_drop(birth->client);
	birth->client = NULL;
	json_free(birth->id);
	birth->id = NULL;
}

static void branch_free(struct session *branch)
{
	struct branch *birth = branch->branch;

	shell_close(branch);
	if (branch->dirfd >= 0)
		close(branch->dirfd);
	if (birth->folder >= 0)
		close(birth->folder);
	answer_free(birth);
	free(birth->parent);
	free(birth);
	free(branch);
}

void branch_free_ended(struct home *home)
{
	while (home->ended) {
		struct session *branch = home->ended;

		home->ended = branch->next_in_home;
		branch_free(branch);
	}
}

/* --- birth --------------------------------------------------------------------------------------
 */

static struct session *find(const struct home *home, const char *id)
{
	struct session *session = home->sessions;

	while (session && (!session->config.id || strcmp(session->config.id, id) != 0))
		session = session->next_in_home;
	return session;
}

/* The notebook has the branch's own cells only; this says where what they use comes from. */
static void tell_origin(struct session *branch, const struct session *parent)
{
	const char *cell = json_get_string(branch->config.parent, "cell");
	const char *name =
		parent && parent->config.name ? parent->config.name : branch->branch->parent;
	cleanup_free char *text =
		cell ? mem_format("This session is a branch of `%s`: it begins with the variables "
				  "as they were there after cell `%s`.",
				  name, cell)
		     : mem_format("This session is a branch of `%s`: it begins with the variables "
				  "as they were there before its first cell.",
				  name);
	struct json *body = json_new_object();

	json_set_string(body, "id", "branch");
	json_set_string(body, "text", text);
	json_set_string(body, "cell_type", "markdown");
	record_body(branch->record, EVENT_NOTE, NULL, body);
}

static void tell_parent(const struct session *branch, struct session *parent)
{
	const char *cell = json_get_string(branch->config.parent, "cell");
	struct json *body = json_new_object();

	json_set_string(body, "session", branch->config.id);
	json_set(body, "name", id_or_null(branch->config.name));
	json_set(body, "checkpoint",
		 branch->branch->number ? json_new_int(branch->branch->number) : NULL);
	record_body(parent->record, EVENT_FORKED, cell, body);
	record_flush(parent->record);
}

void branch_born(struct session *branch)
{
	struct branch *birth = branch->branch;
	struct session *parent = find(branch->home, birth->parent);
	cleanup_free char *socket =
		mem_format("%s/%s.sock", branch->home->runtime, branch->config.id);
	struct json *reply = json_new_object();

	tell_origin(branch, parent);
	record_flush(branch->record);
	if (parent && parent->opened && !record_is_closing(parent->record))
		tell_parent(branch, parent);
	json_set_string(reply, "session", branch->config.id);
	json_set(reply, "name", id_or_null(branch->config.name));
	json_set_string(reply, "socket", socket);
	client_reply(birth->client, birth->id, reply);
	answer_free(birth);
	checkpoints_after_cell(branch->checkpoints);
}

bool branch_again(struct session *branch)
{
	struct branch *birth = branch->branch;

	return birth->client && birth->number && ++birth->tries < TRIES_MAX &&
	       session_box_is_alive(branch) &&
	       branch->engine->ops->wake(branch->engine, birth->number, NULL) == 0;
}

void branch_failed(struct session *branch, const struct err *err)
{
	struct branch *birth = branch->branch;

	if (birth->client)
		client_refuse(birth->client, birth->id, err);
	answer_free(birth);
}

/* Who it is, where it is, and what it shares. */
static int take_place(struct session *branch, const struct session *parent, const struct fork *fork,
		      struct json *origin, struct err *err)
{
	const char *id = branch->branch->own;
	int listener;

	if (make_directory(branch, id, err) != 0 ||
	    write_config(parent, branch, origin, id, fork->name, err) != 0 ||
	    config_read(branch->dirfd, &branch->config, err) != 0 ||
	    session_prepare_policy(branch, err) != 0)
		return -1;
	branch->policy.overlay = branch->home->root->overlay;
	home_take_box(branch, parent);
	listener = spawner_branch(branch->spawner, id, fork->name, err);
	if (listener < 0)
		return -1;
	branch->branch->linked = true;
	return listener;
}

/* From the loop's view it is there, and starts. */
static int start(struct session *branch, int listener, uint32_t number, struct err *err)
{
	if (server_listen(branch->server, listener, err) != 0 ||
	    session_make_engine(branch, err) != 0)
		return -1;
	session_watch_workspace(branch);
	return number ? branch->engine->ops->wake(branch->engine, number, err)
		      : branch->engine->ops->start(branch->engine, err);
}

/* Nobody has heard of it: everything goes at once. */
static void discard(struct session *branch, int listener)
{
	if (listener >= 0)
		close(listener);
	home_leave(branch);
	session_release_engine(branch);
	monitor_stop(branch->monitor);
	checkpoints_stop(branch->checkpoints);
	on_released(branch);
	home_ended(branch);
}

static struct session *new (struct session *parent, uint32_t number)
{
	struct session *branch = mem_zalloc(sizeof(*branch));
	struct branch *birth = branch->branch = mem_zalloc(sizeof(*birth));

	birth->folder = birth->lock = branch->dirfd = -1;
	birth->parent = mem_string(parent->config.id);
	birth->number = number;
	hash_random_id(birth->own);
	branch->released = on_released;
	branch->ended = on_ended;
	branch->ended_data = branch;
	home_join(branch, parent);
	return branch;
}

/* -1: the caller tells why. Else the client hears of it when it is born, or is not. */
static int make(struct session *parent, const struct fork *fork, uint32_t number, struct err *err)
{
	struct session *branch = new (parent, number);
	cleanup_json struct json *origin =
		checkpoints_origin(parent->checkpoints, number, parent->config.id);
	int listener = take_place(branch, parent, fork, origin, err);
	struct err why = ERR_INIT;

	shell_open(branch);
	if (listener < 0 ||
	    shell_record(branch, fcntl(branch->branch->folder, F_DUPFD_CLOEXEC, 0), err) != 0) {
		discard(branch, listener);
		return -1;
	}
	cells_begin_at(branch->cells, cells_count(parent->cells) + 1);
	branch->asked.count = parent->asked.count;
	checkpoints_begin(branch->checkpoints, parent->checkpoints, number);
	branch->branch->client = client_keep(fork->client);
	branch->branch->id = json_keep(fork->id);
	if (start(branch, listener, number, &why) != 0)
		SESSION_ENGINE_EVENTS.failed(branch, &why);
	return 0;
}

/* --- requests -----------------------------------------------------------------------------------
 */

static int check(const struct session *parent, const char *name, const char *from, struct err *err)
{
	bool idle = parent->state == SESSION_IDLE && cells_queued(parent->cells) == 0;

	if (parent->state == SESSION_STOPPING || parent->draining)
		return err_set(err, ERR_GONE, "the session is stopping");
	if (parent->state == SESSION_BROKEN || !session_box_is_alive(parent))
		return err_set(err, ERR_ENGINE,
			       "there is no interpreter; \"restart\" tries to start one");
	if (parent->back.kind != BACK_NONE)
		return err_set(err, ERR_BUSY,
			       "the session is on its way to an earlier state; ask again");
	if (!from && !idle)
		return err_set(err, ERR_BUSY,
			       "a cell runs or waits; ask again when it has ended, or name a "
			       "checkpoint to begin from");
	if (home_count(parent->home) >= HOME_SESSIONS_MAX)
		return err_set(err, ERR_LIMIT,
			       "%d sessions share this box already; stop one of them first",
			       HOME_SESSIONS_MAX);
	if (record_is_full(parent->record))
		return err_set(err, ERR_NO_SPACE,
			       "the disk is full; free some space and try again");
	return name ? names_check(name, err) : 0;
}

bool branch_next(struct session *parent)
{
	while (parent->forks) {
		struct fork *fork = parent->forks;
		struct err err = ERR_INIT;
		bool ready = checkpoints_ready_for(parent->checkpoints, &err);

		if (!ready && err.code == ERR_OK)
			return true;
		parent->forks = fork->next;
		if (!ready || check(parent, fork->name, "", &err) != 0 ||
		    make(parent, fork, checkpoints_newest(parent->checkpoints), &err) != 0)
			client_refuse(fork->client, fork->id, &err);
		fork_free(fork);
	}
	return false;
}

void branch_refuse_all(struct session *parent, const struct err *err)
{
	while (parent->forks) {
		struct fork *fork = parent->forks;

		parent->forks = fork->next;
		client_refuse(fork->client, fork->id, err);
		fork_free(fork);
	}
}

int branch_ask(struct session *parent, const char *name, const char *from, struct client *client,
	       struct json *id, struct err *err)
{
	struct fork *fork, **last = &parent->forks;
	uint32_t number = 0;
	int status = 0;

	if (check(parent, name, from, err) != 0 ||
	    (from && checkpoints_find(parent->checkpoints, from, &number, err) != 0))
		return -1;
	fork = mem_zalloc(sizeof(*fork));
	fork->name = name ? mem_string(name) : NULL;
	fork->client = client_keep(client);
	fork->id = json_keep(id);
	if (from) {
		status = make(parent, fork, number, err);
		fork_free(fork);
		return status;
	}
	while (*last)
		last = &(*last)->next;
	*last = fork;
	session_next(parent);
	return 0;
}
