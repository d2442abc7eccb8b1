/*
 * fumehood-sixel: a PNG on stdin becomes sixels on stdout.
 *
 *	fumehood-sixel WIDTH_MAX < image.png
 *
 * A program of its own because the image comes from a session's code: what libpng and libsixel do
 * with its bytes is done where nothing can be harmed. It is started without environment and with no
 * descriptors but stdin, stdout and /dev/null, and before the first byte is looked at it is
 * confined (base/decoder.h), with no more memory and time than an image of the largest size needs.
 * So `fumehood` itself is linked with neither library.
 *
 * Pixels that are transparent get a white ground, for which plots are made. An image that is wider
 * than WIDTH_MAX pixels is made smaller.
 */
#include <errno.h>
#include <png.h>
#include <sixel.h>
#include <stdint.h>
#include <unistd.h>

#include "base/decoder.h"

enum {
	INPUT_BYTES_MAX = 12 << 20,
	PIXELS_MAX = 16 << 20,
	SIDE_MAX = 10000,
	COLOURS = 256,
	CPU_S_MAX = 10,
	MEMORY_MIB_MAX = 512,
	EXIT_BAD = 1,
	EXIT_WRONG_USE = 2
};

static size_t read_input(unsigned char *input)
{
	size_t len = 0;

	while (len < INPUT_BYTES_MAX) {
		ssize_t got = read(STDIN_FILENO, input + len, INPUT_BYTES_MAX - len);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got == 0 ? len : 0;
		len += (size_t)got;
	}
	return 0;
}

static int write_out(char *data, int size, void *unused)
{
	int done = 0;

	(void)unused;
	while (done < size) {
		ssize_t put = write(STDOUT_FILENO, data + done, (size_t)(size - done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			_exit(EXIT_BAD);
		done += (int)put;
	}
	return done;
}

struct picture {
	unsigned char *pixels; /* three bytes each; the process ends before they would be freed */
	int width, height;
};

/* -1 for what is no PNG, or too large. */
static int decode(struct picture *picture, const unsigned char *input, size_t len)
{
	const png_color white = {255, 255, 255};
	png_image image = {.version = PNG_IMAGE_VERSION};

	if (!png_image_begin_read_from_memory(&image, input, len))
		return -1;
	if (image.width > SIDE_MAX || image.height > SIDE_MAX ||
	    (uint64_t)image.width * image.height > PIXELS_MAX)
		return -1;
	image.format = PNG_FORMAT_RGB;
	picture->width = (int)image.width;
	picture->height = (int)image.height;
	picture->pixels = malloc(PNG_IMAGE_SIZE(image));
	if (!picture->pixels || !png_image_finish_read(&image, &white, picture->pixels, 0, NULL))
		return -1;
	return 0;
}

static int shrink(struct picture *picture, int width)
{
	int height = (int)((int64_t)picture->height * width / picture->width);
	unsigned char *small;

	if (height < 1)
		height = 1;
	small = malloc((size_t)width * (size_t)height * 3);
	if (!small || SIXEL_FAILED(sixel_helper_scale_image(
			      small, picture->pixels, picture->width, picture->height,
			      SIXEL_PIXELFORMAT_RGB888, width, height, SIXEL_RES_BILINEAR, NULL)))
		return -1;
	*picture = (struct picture){.pixels = small, .width = width, .height = height};
	return 0;
}

/* libsixel chooses colours by their upper five bits and leaves the lower three at zero: white would
 * be grey. The upper bits are repeated there, which takes 248 to 255 and 0 to 0. */
static void brighten(sixel_dither_t *dither)
{
	unsigned char *palette = sixel_dither_get_palette(dither);
	int count = sixel_dither_get_num_of_palette_colors(dither) * 3;

	for (int i = 0; i < count; i++) {
		int value = palette[i] + (palette[i] >> 5);

		palette[i] = (unsigned char)(value > 255 ? 255 : value);
	}
}

static int encode(const struct picture *picture)
{
	sixel_output_t *output = NULL;
	sixel_dither_t *dither = NULL;

	if (SIXEL_FAILED(sixel_output_new(&output, write_out, NULL, NULL)) ||
	    SIXEL_FAILED(sixel_dither_new(&dither, COLOURS, NULL)) ||
	    SIXEL_FAILED(sixel_dither_initialize(dither, picture->pixels, picture->width,
						 picture->height, SIXEL_PIXELFORMAT_RGB888,
						 SIXEL_LARGE_AUTO, SIXEL_REP_AUTO,
						 SIXEL_QUALITY_AUTO)))
		return -1;
	brighten(dither);
	return SIXEL_FAILED(sixel_encode(picture->pixels, picture->width, picture->height, 3,
					 dither, output))
		       ? -1
		       : 0;
}

int main(int argc, char **argv)
{
	const struct decoder_limits limits = {.memory_bytes = (uint64_t)MEMORY_MIB_MAX << 20,
					      .cpu_s = CPU_S_MAX};
	struct picture picture = {.pixels = NULL};
	unsigned char *input;
	size_t len;
	long width_max;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		printf("fumehood-sixel " FH_VERSION "\n");
		return 0;
	}
	width_max = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	if (width_max < 1 || width_max > SIDE_MAX) {
		fprintf(stderr, "usage: fumehood-sixel WIDTH_MAX < image.png\n");
		return EXIT_WRONG_USE;
	}
	if (decoder_confine(&limits) != 0)
		return EXIT_BAD;
	input = malloc(INPUT_BYTES_MAX);
	len = input ? read_input(input) : 0;
	if (len == 0 || decode(&picture, input, len) != 0)
		_exit(EXIT_BAD);
	if (picture.width > width_max && shrink(&picture, (int)width_max) != 0)
		_exit(EXIT_BAD);
	_exit(encode(&picture) == 0 ? 0 : EXIT_BAD);
}
