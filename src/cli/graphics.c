/*
 * Images on a terminal. See graphics.h.
 */
#include "cli/graphics.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "cli/sixel.h"
#include "digest/image.h"

enum {
	ANSWER_MS = 200,
	CHUNK_BYTES = 4096,
	ANSWER_BYTES_MAX = 4096,
	COLUMN_PIXELS = 8, /* of a terminal that does not tell */
};

/* A transparent pixel that is not to be shown (a=q), then DA1. */
static const char QUESTION[] = "\033_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\033\\\033[c";

/* --- which -------------------------------------------------------------------------------------
 */

static int from_choice(enum graphics *graphics, const char *choice, struct err *err)
{
	if (strcmp(choice, "path") == 0)
		*graphics = GRAPHICS_PATH;
	else if (strcmp(choice, "kitty") == 0)
		*graphics = GRAPHICS_KITTY;
	else if (strcmp(choice, "iterm") == 0)
		*graphics = GRAPHICS_ITERM;
	else if (strcmp(choice, "sixel") == 0)
		*graphics = GRAPHICS_SIXEL;
	else
		return err_set(err, ERR_USAGE,
			       "FUMEHOOD_IMAGES is path, kitty, iterm or sixel, not %s", choice);
	return 1;
}

static bool is_one_of(const char *value, const char *const *names)
{
	for (; value && *names; names++)
		if (strcmp(value, *names) == 0)
			return true;
	return false;
}

int graphics_from_environment(enum graphics *graphics, const char *(*get)(const char *name),
			      struct err *err)
{
	static const char *const kitty[] = {"ghostty", "xterm-kitty", "xterm-ghostty", NULL};
	static const char *const iterm[] = {"iTerm.app", "iTerm2", "WezTerm", "mintty", NULL};
	static const char *const neither[] = {"dumb", "linux", "Apple_Terminal", NULL};
	const char *choice = get("FUMEHOOD_IMAGES"), *term = get("TERM");
	const char *program = get("TERM_PROGRAM");

	*graphics = GRAPHICS_PATH;
	if (choice && *choice)
		return from_choice(graphics, choice, err);
	/* Within a multiplexer, the variables of the terminal around it mislead, and what is drawn
	 * is not there any more after the next redraw. */
	if (!term || get("TMUX") || get("STY") || strncmp(term, "screen", 6) == 0 ||
	    strncmp(term, "tmux", 4) == 0 || is_one_of(term, neither) ||
	    is_one_of(program, neither))
		return 1;
	if (get("KITTY_WINDOW_ID") || get("KONSOLE_VERSION") || is_one_of(term, kitty) ||
	    is_one_of(program, kitty))
		*graphics = GRAPHICS_KITTY;
	else if (is_one_of(program, iterm) || is_one_of(get("LC_TERMINAL"), iterm))
		*graphics = GRAPHICS_ITERM;
	else
		return 0;
	return 1;
}

/* Removes bytes from the middle of a buffer. */
static void cut_out(struct buf *bytes, size_t from, size_t to)
{
	cleanup_buf struct buf rest = BUF_INIT;

	buf_append(&rest, buf_bytes(bytes) + to, bytes->len - to);
	buf_truncate(bytes, from);
	buf_append(bytes, buf_bytes(&rest), rest.len);
}

/* Whether one of the attributes is 4; the first number is the terminal's class. */
static bool has_sixels(const char *answer, size_t len)
{
	const char *end = answer + len, *at = answer;

	while ((at = memchr(at, ';', (size_t)(end - at))) != NULL) {
		at++;
		if (at < end && *at == '4' && (at + 1 == end || at[1] == ';'))
			return true;
	}
	return false;
}

bool graphics_take_answers(struct buf *bytes, enum graphics *graphics)
{
	static const char apc[] = "\033_Gi=31;", da1[] = "\033[?";
	const char *text = buf_bytes(bytes);
	const char *at = memmem(text, bytes->len, apc, sizeof(apc) - 1);
	const char *end = at ? memmem(at, bytes->len - (size_t)(at - text), "\033\\", 2) : NULL;
	size_t from, to;

	if (end) {
		if (strncmp(at + sizeof(apc) - 1, "OK", 2) == 0)
			*graphics = GRAPHICS_KITTY;
		cut_out(bytes, (size_t)(at - text), (size_t)(end - text) + 2);
	}
	text = buf_bytes(bytes);
	at = memmem(text, bytes->len, da1, sizeof(da1) - 1);
	if (!at)
		return false;
	from = (size_t)(at - text);
	to = from + sizeof(da1) - 1;
	while (to < bytes->len && ((text[to] >= '0' && text[to] <= '9') || text[to] == ';'))
		to++;
	if (to == bytes->len || text[to] != 'c')
		return false;
	if (*graphics == GRAPHICS_PATH && has_sixels(text + from, to - from))
		*graphics = GRAPHICS_SIXEL;
	cut_out(bytes, from, to + 1);
	return true;
}

/* The terminal is raw here. */
static void ask_raw(enum graphics *graphics, struct buf *typed)
{
	int64_t until = clock_monotonic_us() + (int64_t)ANSWER_MS * 1000;

	if (file_write_all(STDOUT_FILENO, QUESTION, sizeof(QUESTION) - 1, NULL) != 0)
		return;
	while (typed->len < ANSWER_BYTES_MAX) {
		int64_t left_us = until - clock_monotonic_us();
		struct pollfd fd = {.fd = STDIN_FILENO, .events = POLLIN};
		ssize_t got;

		if (left_us <= 0 || poll(&fd, 1, (int)(left_us + 999) / 1000) <= 0)
			return;
		got = read(STDIN_FILENO, buf_reserve(typed, 256), 256);
		if (got <= 0)
			return;
		buf_added(typed, (size_t)got);
		if (graphics_take_answers(typed, graphics))
			return;
	}
}

static const char *environment(const char *name)
{
	return getenv(name);
}

static void ask(enum graphics *graphics, struct buf *typed)
{
	struct termios old, raw;

	if (tcgetattr(STDIN_FILENO, &old) != 0)
		return;
	raw = old;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0)
		return;
	ask_raw(graphics, typed);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &old);
}

int graphics_detect(enum graphics *graphics, struct buf *typed, struct err *err)
{
	int known = graphics_from_environment(graphics, environment, err);

	if (known < 0)
		return -1;
	if (!known)
		ask(graphics, typed);
	if (*graphics != GRAPHICS_SIXEL || sixel_is_there())
		return 0;
	*graphics = GRAPHICS_PATH;
	return known ? err_set(err, ERR_UNSUPPORTED,
			       "FUMEHOOD_IMAGES=sixel needs fumehood-sixel, which is not there: "
			       "build Fumehood where libsixel-dev and libpng-dev are installed")
		     : 0;
}

/* --- showing -----------------------------------------------------------------------------------
 */

/* Copies base64 without white space; false when there is anything else. */
static bool copy_base64(struct buf *out, const char *base64, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";

	for (size_t i = 0; i < len; i++) {
		if (base64[i] == '\n' || base64[i] == '\r' || base64[i] == ' ')
			continue;
		if (!base64[i] || !strchr(digits, base64[i]))
			return false;
		buf_append_char(out, base64[i]);
	}
	return out->len > 0 && out->len % 4 == 0;
}

static void kitty(struct buf *out, const struct buf *data, unsigned columns)
{
	const char *at = buf_bytes(data), *end = at + data->len;

	/* q=2: no answer, which would be taken for typing. */
	buf_append_string(out, "\033_Ga=T,f=100,q=2");
	if (columns)
		buf_printf(out, ",c=%u", columns);
	for (bool first = true; at < end; first = false) {
		size_t take = (size_t)(end - at) < CHUNK_BYTES ? (size_t)(end - at) : CHUNK_BYTES;

		buf_printf(out, "%sm=%d;", first ? "," : "\033_G", at + take < end);
		buf_append(out, at, take);
		buf_append_string(out, "\033\\");
		at += take;
	}
}

static void iterm(struct buf *out, const struct buf *data, unsigned columns)
{
	buf_printf(out, "\033]1337;File=inline=1;size=%llu",
		   (unsigned long long)image_bytes(buf_bytes(data), data->len));
	if (columns)
		buf_printf(out, ";width=%u", columns);
	buf_append_char(out, ':');
	buf_append(out, buf_bytes(data), data->len);
	buf_append_char(out, '\a');
}

static bool sixel(struct buf *out, const struct buf *data, unsigned columns, unsigned width_pixels)
{
	cleanup_buf struct buf png = BUF_INIT;
	unsigned width = width_pixels ? width_pixels : columns * COLUMN_PIXELS;

	if (width == 0 || width > SIXEL_WIDTH_MAX)
		width = SIXEL_WIDTH_MAX;
	return hash_base64_decode(&png, buf_bytes(data), data->len) == 0 &&
	       sixel_from_png(out, buf_bytes(&png), png.len, width, NULL) == 0;
}

bool graphics_image(struct buf *out, enum graphics graphics, const char *mime, const char *base64,
		    size_t len, unsigned columns, unsigned width_pixels)
{
	cleanup_buf struct buf data = BUF_INIT;
	uint32_t width = 0, height = 0;
	bool is_png = strcmp(mime, "image/png") == 0;

	if (graphics == GRAPHICS_PATH || len > GRAPHICS_BASE64_BYTES_MAX ||
	    !copy_base64(&data, base64, len) ||
	    !image_size(buf_bytes(&data), data.len, &width, &height))
		return false;
	if (width == 0 || height == 0 || width > GRAPHICS_PIXELS_MAX ||
	    height > GRAPHICS_PIXELS_MAX)
		return false;
	/* The mime type is the guest's word; the bytes of a PNG begin so. */
	if (is_png && strncmp(buf_bytes(&data), "iVBORw0KGgo", 11) != 0)
		return false;
	if (graphics != GRAPHICS_ITERM && !is_png)
		return false;
	if (graphics == GRAPHICS_SIXEL) {
		if (!sixel(out, &data, columns, width_pixels))
			return false;
	} else {
		/* Only an image wider than the terminal is scaled. */
		if (width_pixels == 0 || width <= width_pixels)
			columns = 0;
		(graphics == GRAPHICS_KITTY ? kitty : iterm)(out, &data, columns);
	}
	buf_append_char(out, '\n');
	return true;
}
