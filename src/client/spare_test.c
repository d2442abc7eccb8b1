/* What a spare can be used for, what is asked of it, and what follows when it does not answer. The
 * rest needs a pool: test/flow/test_spare.py. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/socket.h"
#include "client/session.h"

static void test_eligible(void **state)
{
	struct config config = CONFIG_INIT;
	char python[] = "/usr/bin/python3", folder[] = "/tmp";

	(void)state;
	assert_false(spare_is_eligible(&config)); /* which environment, only the keeper can say */
	config.python = python;
	assert_true(spare_is_eligible(&config));
	config.wall_s_max = 7;
	config.ends_with_client = true;
	assert_true(spare_is_eligible(&config));
	config.limits.queue = 7;
	assert_true(spare_is_eligible(&config));
	config.limits.files = 100; /* its box stands already */
	assert_false(spare_is_eligible(&config));
	config.limits.files = 0;
	config.workspace = folder;
	assert_false(spare_is_eligible(&config));
	config.workspace = NULL;
	config.workspace_read_only = true;
	assert_false(spare_is_eligible(&config));
	config.workspace_read_only = false;
	config.policy = json_new_object(); /* its box has the usual one */
	assert_false(spare_is_eligible(&config));
	json_set(config.policy, "net", json_new_array());
	assert_true(spare_is_eligible(&config));
	json_set(config.policy, "env", json_new_object());
	assert_false(spare_is_eligible(&config));
	json_free(config.policy);
	config.policy = NULL;
	config.tier = CONFIG_TIER_NONE;
	assert_false(spare_is_eligible(&config));
}

static void test_request(void **state)
{
	struct config config = CONFIG_INIT;
	cleanup_buf struct buf out = BUF_INIT;
	char name[] = "a \"b\"";

	(void)state;
	config.name = name;
	config.wall_s_max = 300;
	spare_write_request(&out, &config);
	assert_string_equal(buf_bytes(&out),
			    "{\"op\":\"start\",\"session\":{\"name\":\"a \\\"b\\\"\","
			    "\"limits\":{\"wall_s\":300},\"ends_with_client\":false,"
			    "\"durability\":\"process\"}}\n");
}

/* A pool's socket that one client comes to. */
struct scene {
	char folder[64];
	char *runtime;      /* the state is here too */
	const char *answer; /* NULL: none */
	int listener;
};

static void *answer_one(void *data)
{
	const struct scene *scene = data;
	cleanup_fd int fd = accept4(scene->listener, NULL, NULL, SOCK_CLOEXEC);
	char request[4096];

	assert_true(fd >= 0);
	assert_true(recv(fd, request, sizeof(request), 0) > 0);
	if (scene->answer)
		assert_true(send(fd, scene->answer, strlen(scene->answer), MSG_NOSIGNAL) > 0);
	return NULL;
}

/* Listens as the pool of this Python does for clients of its spare. */
static int listen_for(const struct scene *scene, const char *python)
{
	cleanup_free char *identity = mem_format("%s\n%s\n%s", python, scene->runtime, FH_VERSION);
	cleanup_free char *name = NULL;
	char hex[HASH_HEX_SIZE];
	int fd;

	hash_sha256(identity, strlen(identity), hex);
	name = mem_format("spare-%.16s.sock", hex);
	fd = socket_listen(scene->runtime, name, SOCK_STREAM, NULL);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	return fd;
}

static int scene_open(void **state)
{
	static struct scene scene;

	snprintf(scene.folder, sizeof(scene.folder), "/tmp/fumehood-spare-XXXXXX");
	assert_non_null(mkdtemp(scene.folder));
	setenv("XDG_RUNTIME_DIR", scene.folder, 1);
	setenv("XDG_STATE_HOME", scene.folder, 1);
	scene.runtime = mem_format("%s/fumehood", scene.folder);
	assert_int_equal(mkdir(scene.runtime, 0700), 0);
	scene.listener = listen_for(&scene, "/p/python");
	*state = &scene;
	return 0;
}

static int scene_close(void **state)
{
	struct scene *scene = *state;

	close(scene->listener);
	free(scene->runtime);
	return file_remove_tree(AT_FDCWD, scene->folder, NULL);
}

static enum spare_outcome start(struct scene *scene, const char *answer,
				struct fh_session **session)
{
	struct config config = CONFIG_INIT;
	char python[] = "/p/python";
	enum spare_outcome outcome;
	struct err err = ERR_INIT;
	pthread_t thread;

	config.python = python;
	scene->answer = answer;
	assert_int_equal(pthread_create(&thread, NULL, answer_one, scene), 0);
	outcome = spare_start(&config, -1, session, &err);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return outcome;
}

static void test_given(void **state)
{
	struct scene *scene = *state;
	struct fh_session *session = NULL;
	cleanup_free char *directory =
		mem_format("%s/sessions/abcdefghijklmnopqrstuvwxyz", scene->runtime);

	assert_int_equal(start(scene,
			       "{\"type\":\"hello\",\"protocol\":1,\"last_seq\":1,"
			       "\"session\":\"abcdefghijklmnopqrstuvwxyz\"}\n",
			       &session),
			 SPARE_GIVEN);
	assert_string_equal(fh_id(session), "abcdefghijklmnopqrstuvwxyz");
	assert_string_equal(fh_directory(session), directory);
	assert_null(fh_name(session));
	assert_int_equal(fh_hello_seq(session), 1);
	fh_close(session);
}

/* Who names no Python has the spare of the default one. */
static void test_default_python(void **state)
{
	struct scene scene = *(struct scene *)*state;
	cleanup_free char *python = mem_format("%s/python", scene.folder);
	struct fh_start_params params;
	struct fh_session *session;
	struct fh_error error = FH_ERROR_INIT;
	pthread_t thread;

	close(open(python, O_WRONLY | O_CREAT | O_CLOEXEC, 0700));
	setenv("FUMEHOOD_PYTHON", python, 1);
	scene.listener = listen_for(&scene, python);
	scene.answer = "{\"type\":\"hello\",\"protocol\":1,\"last_seq\":1,"
		       "\"session\":\"abcdefghijklmnopqrstuvwxyz\"}\n";
	assert_int_equal(pthread_create(&thread, NULL, answer_one, &scene), 0);
	fh_start_params_init(&params);
	session = fh_start(&params, &error);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_non_null(session);
	assert_string_equal(fh_id(session), "abcdefghijklmnopqrstuvwxyz");
	fh_close(session);
	close(scene.listener);
	/* One that was chosen and is not there is said at once. */
	setenv("FUMEHOOD_PYTHON", "/nowhere/python", 1);
	assert_null(fh_start(&params, &error));
	assert_int_equal(error.code, FH_NOT_FOUND);
	assert_non_null(strstr(error.text, "FUMEHOOD_PYTHON"));
	unsetenv("FUMEHOOD_PYTHON");
}

static void test_not_given(void **state)
{
	static const char *const answers[] = {
		NULL,
		"{\"type\":\"refused\",\"id\":null,\"code\":\"invalid\",\"message\":\"no\"}\n",
		"{\"type\":\"hello\",\"protocol\":2}\n",
		"{\"type\":\"hello\",\"protocol\":1,\"session\":\"../x\"}\n",
		"nonsense\n",
	};
	struct fh_session *session = NULL;

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		assert_int_equal(start(*state, answers[i], &session), SPARE_NONE);
		assert_null(session);
	}
}

static void test_nobody_listens(void **state)
{
	struct config config = CONFIG_INIT;
	char python[] = "/another/python", name[] = "../x";
	struct fh_session *session = NULL;
	struct err err = ERR_INIT;

	(void)state;
	config.python = python;
	assert_int_equal(spare_start(&config, -1, &session, &err), SPARE_NONE);
	config.name = name;
	assert_int_equal(spare_start(&config, -1, &session, &err), SPARE_FAILED);
	assert_int_equal(err.code, ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eligible),       cmocka_unit_test(test_request),
		cmocka_unit_test(test_given),          cmocka_unit_test(test_not_given),
		cmocka_unit_test(test_nobody_listens), cmocka_unit_test(test_default_python),
	};

	return cmocka_run_group_tests(tests, scene_open, scene_close);
}
