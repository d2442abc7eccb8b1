/*
 * Two tables; see mime.h. Types are those of the IANA registry where it has one, else the name in
 * common use.
 */
#include "keeper/mime.h"

#include <string.h>
#include <strings.h>

enum { ENDING_LEN_MAX = 8 };

static const struct {
	const char *ending, *mime;
} ENDINGS[] = {
	{"avif", "image/avif"},
	{"bmp", "image/bmp"},
	{"bz2", "application/x-bzip2"},
	{"c", "text/x-c"},
	{"cfg", "text/plain"},
	{"css", "text/css"},
	{"csv", "text/csv"},
	{"db", "application/vnd.sqlite3"},
	{"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
	{"eps", "application/postscript"},
	{"feather", "application/vnd.apache.arrow.file"},
	{"flac", "audio/flac"},
	{"geojson", "application/geo+json"},
	{"gif", "image/gif"},
	{"gz", "application/gzip"},
	{"h5", "application/x-hdf5"},
	{"hdf5", "application/x-hdf5"},
	{"htm", "text/html"},
	{"html", "text/html"},
	{"ini", "text/plain"},
	{"ipynb", "application/x-ipynb+json"},
	{"jpeg", "image/jpeg"},
	{"jpg", "image/jpeg"},
	{"js", "text/javascript"},
	{"json", "application/json"},
	{"jsonl", "application/x-ndjson"},
	{"log", "text/plain"},
	{"md", "text/markdown"},
	{"mp3", "audio/mpeg"},
	{"mp4", "video/mp4"},
	{"ndjson", "application/x-ndjson"},
	{"npy", "application/x-npy"},
	{"npz", "application/x-npz"},
	{"ods", "application/vnd.oasis.opendocument.spreadsheet"},
	{"ogg", "audio/ogg"},
	{"otf", "font/otf"},
	{"parquet", "application/vnd.apache.parquet"},
	{"pdf", "application/pdf"},
	{"pickle", "application/x-pickle"},
	{"pkl", "application/x-pickle"},
	{"png", "image/png"},
	{"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
	{"ps", "application/postscript"},
	{"py", "text/x-python"},
	{"r", "text/x-r"},
	{"rst", "text/x-rst"},
	{"sh", "application/x-sh"},
	{"sqlite", "application/vnd.sqlite3"},
	{"sqlite3", "application/vnd.sqlite3"},
	{"svg", "image/svg+xml"},
	{"tar", "application/x-tar"},
	{"tex", "application/x-tex"},
	{"tgz", "application/gzip"},
	{"tif", "image/tiff"},
	{"tiff", "image/tiff"},
	{"toml", "application/toml"},
	{"tsv", "text/tab-separated-values"},
	{"ttf", "font/ttf"},
	{"txt", "text/plain"},
	{"wav", "audio/wav"},
	{"webm", "video/webm"},
	{"webp", "image/webp"},
	{"xls", "application/vnd.ms-excel"},
	{"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
	{"xml", "application/xml"},
	{"xz", "application/x-xz"},
	{"yaml", "application/yaml"},
	{"yml", "application/yaml"},
	{"zip", "application/zip"},
	{"zst", "application/zstd"},
};

static const struct {
	unsigned char at, len;
	unsigned char bytes[8];
	const char *mime;
} HEADS[] = {
	{0, 8, {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, "image/png"},
	{0, 3, {0xff, 0xd8, 0xff}, "image/jpeg"},
	{0, 4, {'G', 'I', 'F', '8'}, "image/gif"},
	{8, 4, {'W', 'E', 'B', 'P'}, "image/webp"},
	{8, 4, {'W', 'A', 'V', 'E'}, "audio/wav"},
	{0, 4, {'I', 'I', '*', 0}, "image/tiff"},
	{0, 4, {'M', 'M', 0, '*'}, "image/tiff"},
	{0, 5, {'%', 'P', 'D', 'F', '-'}, "application/pdf"},
	{0, 4, {'P', 'K', 3, 4}, "application/zip"},
	{0, 3, {0x1f, 0x8b, 8}, "application/gzip"},
	{0, 4, {0x28, 0xb5, 0x2f, 0xfd}, "application/zstd"},
	{0, 6, {0xfd, '7', 'z', 'X', 'Z', 0}, "application/x-xz"},
	{0, 7, {'S', 'Q', 'L', 'i', 't', 'e', ' '}, "application/vnd.sqlite3"},
	{0, 8, {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'}, "application/x-hdf5"},
	{0, 4, {'P', 'A', 'R', '1'}, "application/vnd.apache.parquet"},
	{0, 6, {0x93, 'N', 'U', 'M', 'P', 'Y'}, "application/x-npy"},
};

const char *mime_of_name(const char *name, size_t len)
{
	char ending[ENDING_LEN_MAX + 1] = "";
	const char *dot = memrchr(name, '.', len);
	size_t left = dot ? len - (size_t)(dot + 1 - name) : 0;

	if (left == 0 || left > ENDING_LEN_MAX ||
	    dot == name) /* ".csv" is a hidden file, no table */
		return NULL;
	memcpy(ending, dot + 1, left);
	for (size_t i = 0; i < sizeof(ENDINGS) / sizeof(*ENDINGS); i++)
		if (strcasecmp(ENDINGS[i].ending, ending) == 0)
			return ENDINGS[i].mime;
	return NULL;
}

const char *mime_of_head(const void *head, size_t len)
{
	for (size_t i = 0; i < sizeof(HEADS) / sizeof(*HEADS); i++) {
		size_t end = (size_t)HEADS[i].at + HEADS[i].len;

		if (end <= len &&
		    memcmp((const char *)head + HEADS[i].at, HEADS[i].bytes, HEADS[i].len) == 0)
			return HEADS[i].mime;
	}
	return "application/octet-stream";
}
