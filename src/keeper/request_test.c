/* Requests: what is taken, what is refused and with which words. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/buf.h"
#include "keeper/request.h"

struct good {
	const char *line;
	enum request_op op;
};

static const struct good GOOD[] = {
	{"{\"op\":\"run\",\"code\":\"1\"}", REQUEST_RUN},
	{"{\"op\":\"run\",\"id\":\"c1\",\"code\":\"\\u0000\\ud83d\\ude00\",\"timeout\":0.5,\"allow_"
	 "stdin\":true,"
	 "\"max_chars\":0,\"metadata\":{}}",
	 REQUEST_RUN},
	{"{\"op\":\"run\",\"code\":\"\",\"a_field_of_tomorrow\":[1]}", REQUEST_RUN},
	{"{\"op\":\"run\",\"code\":\"\",\"file\":\"a/b.py\",\"argv\":[\"\",\"-x\"]}", REQUEST_RUN},
	{"{\"op\":\"run\",\"code\":\"\",\"argv\":[]}", REQUEST_RUN},
	{" {\"op\":\"interrupt\"}\r", REQUEST_INTERRUPT},
	{"{\"op\":\"interrupt\",\"cell\":\"c-1_A\",\"id\":7}", REQUEST_INTERRUPT},
	{"{\"op\":\"input\",\"text\":\"\"}", REQUEST_INPUT},
	{"{\"op\":\"input\",\"eof\":true}", REQUEST_INPUT},
	{"{\"op\":\"events\",\"since\":17,\"follow\":true,\"lossy\":false,\"inline\":true}",
	 REQUEST_EVENTS},
	{"{\"op\":\"section\",\"title\":\"x\",\"level\":6}", REQUEST_SECTION},
	{"{\"op\":\"note\",\"text\":\"x\",\"cell_type\":\"raw\"}", REQUEST_NOTE},
	{"{\"op\":\"note\",\"text\":\"x\",\"cell_type\":\"code\"}", REQUEST_NOTE},
	{"{\"op\":\"stop\",\"mode\":\"drain\"}", REQUEST_STOP},
	{"{\"op\":\"stop\"}", REQUEST_STOP},
	{"{\"op\":\"complete\",\"code\":\"pri\",\"cursor_pos\":3}", REQUEST_COMPLETE},
	{"{\"op\":\"inspect\",\"code\":\"\",\"detail_level\":1}", REQUEST_INSPECT},
	{"{\"op\":\"variables\",\"pattern\":\"x*\",\"max\":10000}", REQUEST_VARIABLES},
	{"{\"op\":\"variables\"}", REQUEST_VARIABLES},
	{"{\"op\":\"files\"}", REQUEST_FILES},
	{"{\"op\":\"files\",\"cell\":\"c1\"}", REQUEST_FILES},
	{"{\"op\":\"images\",\"since\":7,\"section\":\"\"}", REQUEST_IMAGES},
	{"{\"op\":\"outputs\",\"section\":\"a\",\"max_chars\":0,\"item_chars\":9}",
	 REQUEST_OUTPUTS},
	{"{\"op\":\"policy\"}", REQUEST_POLICY},
	{"{\"op\":\"policy\",\"set\":{\"net\":[],\"whatever\":1}}", REQUEST_POLICY},
	{"{\"op\":\"limits\"}", REQUEST_LIMITS},
	{"{\"op\":\"run\",\"code\":\"\",\"atomic\":true,\"files\":false}", REQUEST_RUN},
	{"{\"op\":\"run\",\"code\":\"\",\"try\":true,\"atomic\":false}", REQUEST_RUN},
	{"{\"op\":\"checkpoint\",\"name\":\"a.b_c-1\",\"files\":true}", REQUEST_CHECKPOINT},
	{"{\"op\":\"checkpoint\",\"name\":\"1a\"}", REQUEST_CHECKPOINT},
	{"{\"op\":\"checkpoints\"}", REQUEST_CHECKPOINTS},
	{"{\"op\":\"notebook\",\"rolled_back\":\"keep\"}", REQUEST_NOTEBOOK},
	{"{\"op\":\"checkpoints\",\"drop\":\".\"}", REQUEST_CHECKPOINTS},
	{"{\"op\":\"rollback\"}", REQUEST_ROLLBACK},
	{"{\"op\":\"rollback\",\"to\":\"clean.1\",\"files\":false}", REQUEST_ROLLBACK},
	{"{\"op\":\"rollback\",\"to\":\"-1\"}", REQUEST_ROLLBACK}, /* may be the id of a cell */
	{"{\"op\":\"rollback\",\"to\":\"7\"}", REQUEST_ROLLBACK},
	{"{\"op\":\"rollback\",\"to\":null}", REQUEST_ROLLBACK}, /* null is as absent */
	{"{\"op\":\"reset\"}", REQUEST_RESET},
	{"{\"op\":\"fork\"}", REQUEST_FORK},
	{"{\"op\":\"fork\",\"name\":\"b\",\"from\":\"c7\"}", REQUEST_FORK},
	{"{\"op\":\"limits\",\"set\":{\"queue\":7,\"whatever\":[]}}", REQUEST_LIMITS},
	{"{\"op\":\"record\",\"type\":\"ask\",\"instruction\":\"\",\"checks\":[],\"limits\":{},"
	 "\"notebook_attempts\":\"show\",\"a_field_of_tomorrow\":{}}",
	 REQUEST_RECORD},
	{"{\"op\":\"record\",\"type\":\"attempt\",\"ask\":\"a1\",\"attempt\":1,\"state\":"
	 "\"started\",\"of\":null}",
	 REQUEST_RECORD},
	{"{\"op\":\"record\",\"type\":\"token\",\"ask\":\"a1\",\"attempt\":1,\"text\":\"x\","
	 "\"reasoning\":true}",
	 REQUEST_RECORD},
	{"{\"op\":\"record\",\"type\":\"code\",\"ask\":\"a1\",\"attempt\":9,\"code\":\"\"}",
	 REQUEST_RECORD},
	{"{\"op\":\"record\",\"type\":\"verdict\",\"ask\":\"a1\",\"success\":false,\"cell\":null}",
	 REQUEST_RECORD},
};

static void good_requests(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(GOOD) / sizeof(*GOOD); i++) {
		struct request request;
		struct err err = ERR_INIT;

		if (request_parse(GOOD[i].line, strlen(GOOD[i].line), &request, &err) != 0)
			fail_msg("%s: %s", GOOD[i].line, err.text);
		assert_int_equal(request.op, GOOD[i].op);
		request_release(&request);
	}
}

struct bad {
	const char *line;
	const char *words; /* must be in the message */
};

static const struct bad BAD[] = {
	{"", "JSON"},
	{"hello", "JSON"},
	{"[]", "object"},
	{"{}", "op"},
	{"{\"op\":7}", "op"},
	{"{\"op\":\"fly\"}", "fly"},
	{"{\"op\":\"run\"}", "code"},
	{"{\"op\":\"complete\"}", "code"},
	{"{\"op\":\"run\",\"code\":\"\",\"atomic\":1}", "atomic"},
	{"{\"op\":\"run\",\"code\":\"\",\"try\":\"yes\"}", "try"},
	{"{\"op\":\"run\",\"code\":\"\",\"try\":true,\"atomic\":true}", "exclude"},
	{"{\"op\":\"run\",\"code\":\"\",\"files\":[]}", "files"},
	{"{\"op\":\"checkpoint\"}", "name"},
	{"{\"op\":\"notebook\",\"rolled_back\":\"kept\"}", "omit"},
	{"{\"op\":\"notebook\",\"rolled_back\":true}", "rolled_back"},
	{"{\"op\":\"checkpoint\",\"name\":null}", "name"},
	{"{\"op\":\"checkpoint\",\"name\":\"\"}", "name"},
	{"{\"op\":\"checkpoint\",\"name\":\"-a\"}", "\"-\" first"},
	{"{\"op\":\"checkpoint\",\"name\":\"12\"}", "digits"},
	{"{\"op\":\"checkpoint\",\"name\":\"a/b\"}", "64 characters"},
	{"{\"op\":\"checkpoint\",\"name\":\"a\\u0000b\"}", "64 characters"},
	{"{\"op\":\"checkpoint\",\"name\":"
	 "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}",
	 "64 characters"},
	{"{\"op\":\"checkpoint\",\"name\":\"a\",\"files\":\"no\"}", "files"},
	{"{\"op\":\"checkpoints\",\"drop\":\"7\"}", "drop"},
	{"{\"op\":\"rollback\",\"to\":\"\"}", "name of a checkpoint"},
	{"{\"op\":\"rollback\",\"to\":7}", "name of a checkpoint"},
	{"{\"op\":\"rollback\",\"files\":1}", "files"},
	{"{\"op\":\"fork\",\"name\":7}", "name"},
	{"{\"op\":\"fork\",\"from\":\"a b\"}", "from"},
	{"{\"op\":\"complete\",\"code\":\"\",\"cursor_pos\":-1}", "cursor_pos"},
	{"{\"op\":\"inspect\",\"code\":\"\",\"detail_level\":2}", "detail_level"},
	{"{\"op\":\"variables\",\"max\":10001}", "pattern"},
	{"{\"op\":\"variables\",\"pattern\":7}", "pattern"},
	{"{\"op\":\"run\",\"code\":null}", "code"},
	{"{\"op\":\"run\",\"code\":\"\",\"file\":\"\"}", "file"},
	{"{\"op\":\"run\",\"code\":\"\",\"file\":\"a\\u0000b\"}", "file"},
	{"{\"op\":\"run\",\"code\":\"\",\"argv\":\"-x\"}", "argv"},
	{"{\"op\":\"run\",\"code\":\"\",\"argv\":[\"a\",1]}", "argv"},
	{"{\"op\":\"run\",\"code\":\"\",\"argv\":[\"a\\u0000\"]}", "argv"},
	{"{\"op\":\"run\",\"code\":1}", "code"},
	{"{\"op\":\"run\",\"code\":\"\",\"code\":\"\"}", "JSON"},
	{"{\"op\":\"run\",\"code\":\"\",\"id\":\"a b\"}", "id"},
	{"{\"op\":\"run\",\"code\":\"\",\"id\":\"\"}", "id"},
	{"{\"op\":\"run\",\"code\":\"\",\"id\":[]}", "id"},
	{"{\"op\":\"run\",\"code\":\"\",\"timeout\":0}", "timeout"},
	{"{\"op\":\"run\",\"code\":\"\",\"timeout\":-1}", "timeout"},
	{"{\"op\":\"run\",\"code\":\"\",\"timeout\":\"5\"}", "timeout"},
	{"{\"op\":\"run\",\"code\":\"\",\"timeout\":NaN}", "JSON"},
	{"{\"op\":\"run\",\"code\":\"\",\"max_chars\":-1}", "max_chars"},
	{"{\"op\":\"run\",\"code\":\"\",\"max_chars\":1.5}", "max_chars"},
	{"{\"op\":\"input\"}", "eof"},
	{"{\"op\":\"input\",\"eof\":1}", "eof"},
	{"{\"op\":\"section\",\"title\":\"x\",\"level\":7}", "level"},
	{"{\"op\":\"note\",\"text\":\"x\",\"cell_type\":\"heading\"}", "cell_type"},
	{"{\"op\":\"stop\",\"mode\":\"later\"}", "mode"},
	{"{\"op\":\"events\",\"since\":-1}", "since"},
	{"{\"op\":\"run\",\"code\":\"\xff\"}", "JSON"},
	{"{\"op\":\"run\",\"code\":\"a\nb\"}", "JSON"},
	{"null", "object"},
	{"{\"op\":\"files\",\"since\":\"x\"}", "since"},
	{"{\"op\":\"limits\",\"set\":[]}", "set"},
	{"{\"op\":\"limits\",\"set\":1}", "set"},
	{"{\"op\":\"record\"}", "type"},
	{"{\"op\":\"record\",\"type\":\"output\",\"text\":\"x\"}", "verdict"},
	{"{\"op\":\"record\",\"type\":\"stopped\",\"reason\":\"x\"}", "verdict"},
	{"{\"op\":\"record\",\"type\":\"other\"}", "verdict"},
	{"{\"op\":\"record\",\"type\":\"ask\"}", "instruction"},
	{"{\"op\":\"record\",\"type\":\"ask\",\"instruction\":7}", "instruction"},
	{"{\"op\":\"record\",\"type\":\"ask\",\"instruction\":\"\",\"ask\":\"a1\"}", "given here"},
	{"{\"op\":\"record\",\"type\":\"ask\",\"instruction\":\"\",\"seq\":1}", "seq"},
	{"{\"op\":\"record\",\"type\":\"ask\",\"instruction\":\"\",\"t\":\"x\"}", "\"t\""},
	{"{\"op\":\"record\",\"type\":\"ask\",\"instruction\":\"\",\"cell\":\"c1\"}", "cell"},
	{"{\"op\":\"record\",\"type\":\"ask\",\"instruction\":\"\",\"a\\u0000\":1}", "NUL"},
	{"{\"op\":\"record\",\"type\":\"ask\",\"instruction\":\"\",\"notebook_attempts\":\"yes\"}",
	 "show"},
	{"{\"op\":\"record\",\"type\":\"token\",\"attempt\":1,\"text\":\"\"}", "\"ask\""},
	{"{\"op\":\"record\",\"type\":\"token\",\"ask\":\"a1\",\"attempt\":0,\"text\":\"\"}",
	 "from 1"},
	{"{\"op\":\"record\",\"type\":\"attempt\",\"ask\":\"a1\",\"attempt\":1,\"state\":\"x\"}",
	 "finished"},
	{"{\"op\":\"record\",\"type\":\"code\",\"ask\":\"a1\",\"attempt\":1}", "code"},
	{"{\"op\":\"record\",\"type\":\"verdict\",\"ask\":\"a1\"}", "success"},
	{"{\"op\":\"record\",\"type\":\"verdict\",\"ask\":\"a1\",\"success\":true,\"cell\":\"a "
	 "b\"}",
	 "cell"},
};

static void bad_requests(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(BAD) / sizeof(*BAD); i++) {
		struct request request;
		struct err err = ERR_INIT;

		if (request_parse(BAD[i].line, strlen(BAD[i].line), &request, &err) == 0)
			fail_msg("taken: %s", BAD[i].line);
		if (!strstr(err.text, BAD[i].words))
			fail_msg("%s: \"%s\" does not say \"%s\"", BAD[i].line, err.text,
				 BAD[i].words);
		request_release(&request);
	}
}

/* The refusal can name the request although its fields are wrong. */
static void refusal_keeps_the_id(void **state)
{
	static const char line[] = "{\"op\":\"text\",\"id\":\"q9\"}";
	struct request request;

	(void)state;
	assert_int_equal(request_parse(line, strlen(line), &request, NULL), -1);
	assert_string_equal(json_string(request.id, NULL), "q9");
	request_release(&request);
}

static void limits(void **state)
{
	struct buf line = BUF_INIT;
	struct request request;
	struct err err = ERR_INIT;

	(void)state;
	buf_append_string(&line, "{\"op\":\"run\",\"code\":\"");
	memset(buf_reserve(&line, REQUEST_CODE_BYTES_MAX + 1), 'x', REQUEST_CODE_BYTES_MAX + 1);
	buf_added(&line, REQUEST_CODE_BYTES_MAX + 1);
	buf_append_string(&line, "\"}");
	assert_int_equal(request_parse(buf_bytes(&line), line.len, &request, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	request_release(&request);
	buf_clear(&line);
	buf_append_string(&line, "{\"op\":\"run\",\"code\":\"\",\"metadata\":");
	for (int i = 0; i < 100; i++)
		buf_append_string(&line, "{\"a\":");
	assert_int_equal(request_parse(buf_bytes(&line), line.len, &request, &err), -1);
	request_release(&request);
	buf_clear(&line);
	buf_append_string(&line, "{\"op\":\"record\",\"type\":\"ask\",\"instruction\":\"");
	memset(buf_reserve(&line, REQUEST_RECORD_BYTES_MAX), 'x', REQUEST_RECORD_BYTES_MAX);
	buf_added(&line, REQUEST_RECORD_BYTES_MAX);
	buf_append_string(&line, "\"}");
	err = (struct err)ERR_INIT;
	assert_int_equal(request_parse(buf_bytes(&line), line.len, &request, &err), -1);
	assert_int_equal(err.code, ERR_LIMIT);
	request_release(&request);
	buf_release(&line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_requests),
		cmocka_unit_test(bad_requests),
		cmocka_unit_test(refusal_keeps_the_id),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
