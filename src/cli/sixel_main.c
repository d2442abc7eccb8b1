/*
 * fumehood-sixel: a PNG on stdin becomes sixels on stdout.
 *
 *	fumehood-sixel WIDTH_MAX < image.png
 *
 * A program of its own because the image comes from a session's code: what libpng and libsixel do
 * with its bytes is done where nothing can be harmed. It is started without environment and with no
 * descriptors but stdin, stdout and /dev/null; before the first byte is looked at, it may take no
 * more memory and time than an image of the largest size needs, and make no system call but those
 * that read, write and allocate (seccomp(2)). So `fumehood` itself is linked with neither library.
 *
 * Pixels that are transparent get a white ground, for which plots are made. An image that is wider
 * than WIDTH_MAX pixels is made smaller.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <png.h>
#include <sixel.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "fumehood-sixel: the number of this architecture is missing here (linux/audit.h)"
#endif

#define ALLOW(name) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* glibc: malloc begins with getrandom, qsort asks for the size of the memory (sysinfo). */
static int lock_down(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(read),
		ALLOW(write),
		ALLOW(brk),
		ALLOW(mmap),
		ALLOW(mremap),
		ALLOW(munmap),
		ALLOW(getrandom),
		ALLOW(sysinfo),
		ALLOW(clock_gettime),
		ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};
	const struct rlimit memory = {(rlim_t)MEMORY_MIB_MAX << 20, (rlim_t)MEMORY_MIB_MAX << 20};
	const struct rlimit cpu = {CPU_S_MAX, CPU_S_MAX};
	const struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_AS, &memory) != 0 || setrlimit(RLIMIT_CPU, &cpu) != 0 ||
	    setrlimit(RLIMIT_CORE, &none) != 0 || setrlimit(RLIMIT_FSIZE, &none) != 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

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
	if (lock_down() != 0)
		return EXIT_BAD;
	input = malloc(INPUT_BYTES_MAX);
	len = input ? read_input(input) : 0;
	if (len == 0 || decode(&picture, input, len) != 0)
		_exit(EXIT_BAD);
	if (picture.width > width_max && shrink(&picture, (int)width_max) != 0)
		_exit(EXIT_BAD);
	_exit(encode(&picture) == 0 ? 0 : EXIT_BAD);
}
