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
	config.workspace = folder;
	assert_false(spare_is_eligible(&config));
	config.workspace = NULL;
	config.workspace_read_only = true;
	assert_false(spare_is_eligible(&config));
	config.workspace_read_only = false;
	config.tier_none = true;
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
			    "\"limits\":{\"wall_s\":300},\"ends_with_client\":false}}\n");
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

static int scene_open(void **state)
{
	static struct scene scene;
	cleanup_free char *identity = NULL;
	cleanup_free char *name = NULL;
	char hex[HASH_HEX_SIZE];

	snprintf(scene.folder, sizeof(scene.folder), "/tmp/fumehood-spare-XXXXXX");
	assert_non_null(mkdtemp(scene.folder));
	setenv("XDG_RUNTIME_DIR", scene.folder, 1);
	setenv("XDG_STATE_HOME", scene.folder, 1);
	scene.runtime = mem_format("%s/fumehood", scene.folder);
	assert_int_equal(mkdir(scene.runtime, 0700), 0);
	identity = mem_format("/p/python\n%s\n%s", scene.runtime, FH_VERSION);
	hash_sha256(identity, strlen(identity), hex);
	name = mem_format("spare-%.16s.sock", hex);
	scene.listener = socket_listen(scene.runtime, name, SOCK_STREAM, NULL);
	assert_true(scene.listener >= 0);
	assert_int_equal(fcntl(scene.listener, F_SETFL, 0), 0);
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
		cmocka_unit_test(test_nobody_listens),
	};

	return cmocka_run_group_tests(tests, scene_open, scene_close);
}
