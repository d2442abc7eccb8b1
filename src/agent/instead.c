/*
 * See instead.h.
 *
 * The advice is short and has code in it, because that is what small models take up. Of a row at
 * most three are named, the first ones that are there: who is given ten ways takes none.
 */
#include "agent/instead.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { WITH_MAX = 4, NAMED_MAX = 3 };

static const char MARK[] = "fumehood-modules:";
static const char NETWORK[] = "+network";

struct with {
	const char *name; /* what is imported */
	const char *how;
};

static const struct with CSV = {"csv", "csv.DictReader(file) gives each row as a dict"};
static const struct with GROUPS = {"collections", "defaultdict(list) groups, Counter counts"};
static const struct with STATISTICS = {"statistics", "mean, median, stdev"};
static const struct with MATH = {"math", "sqrt, sin, log, pi, comb"};
static const struct with URLLIB = {"urllib.request", "urlopen(url).read()"};
static const struct with JSON = {"json", "json.load(file), json.dumps(value)"};
static const struct with REGEX = {"re", "re.findall(pattern, text)"};
static const struct with DATETIME = {"datetime",
				     "datetime.strptime, date.fromisoformat, timedelta"};
static const struct with ZONES = {"zoneinfo", "ZoneInfo(\"Europe/Paris\")"};
static const struct with XML = {"xml.etree.ElementTree", "parse(file).getroot().iter(tag)"};
static const struct with HTML = {"html.parser", "a class of HTMLParser with handle_data"};
static const struct with ZIP = {"zipfile", "an .xlsx or .docx file is a zip of XML"};
static const struct with PLOT = {"matplotlib.pyplot", "plt.plot, plt.savefig"};
static const struct with NUMPY = {"numpy", "arrays, numpy.linalg"};
static const struct with SQLITE = {"sqlite3", "connect(\":memory:\")"};
static const struct with DATACLASS = {"dataclasses", "@dataclass"};
static const struct with ITERTOOLS = {"itertools", "combinations, groupby, accumulate"};

/* By the module that is wanted. One that has no `with` is done without any. */
static const struct row {
	const char *module;
	const struct with *with[WITH_MAX];
} ROWS[] = {
	{"pandas", {&CSV, &GROUPS, &STATISTICS}},
	{"polars", {&(const struct with){"pandas", "read_csv, groupby"}, &CSV, &GROUPS}},
	{"dask", {&(const struct with){"pandas", "read_csv, groupby"}, &CSV, &GROUPS}},
	{"numpy", {&STATISTICS, &MATH, &(const struct with){"random", "random.gauss, shuffle"}}},
	{"scipy", {&NUMPY, &STATISTICS, &MATH}},
	{"sklearn", {&NUMPY, &STATISTICS, &MATH}},
	{"statsmodels", {&NUMPY, &STATISTICS}},
	{"sympy", {&(const struct with){"fractions", "Fraction(1, 3)"}, &MATH}},
	{"mpmath", {&(const struct with){"decimal", "getcontext().prec = 50"}, &MATH}},
	{"gmpy2", {&MATH}},
	{"networkx", {&GROUPS, &(const struct with){"heapq", "heappush, heappop"}}},
	{"requests", {&URLLIB, &JSON}},
	{"httpx", {&URLLIB, &JSON}},
	{"aiohttp", {&URLLIB, &JSON}},
	{"urllib3", {&URLLIB}},
	{"urllib2", {&URLLIB}},
	{"bs4", {&HTML, &REGEX}},
	{"lxml", {&XML, &HTML}},
	{"xmltodict", {&XML}},
	{"yaml", {&REGEX, &JSON}},
	{"ruamel", {&REGEX, &JSON}},
	{"toml", {&(const struct with){"tomllib", "tomllib.loads(text)"}, &REGEX}},
	{"tomli", {&(const struct with){"tomllib", "tomllib.loads(text)"}, &REGEX}},
	{"simplejson", {&JSON}},
	{"ujson", {&JSON}},
	{"orjson", {&JSON}},
	{"regex", {&REGEX}},
	{"unicodecsv", {&CSV}},
	{"dateutil", {&DATETIME, &ZONES}},
	{"pytz", {&ZONES, &DATETIME}},
	{"arrow", {&DATETIME, &ZONES}},
	{"pendulum", {&DATETIME, &ZONES}},
	{"openpyxl", {&ZIP, &XML}},
	{"xlrd", {&ZIP, &XML}},
	{"xlsxwriter", {&CSV}},
	{"docx", {&ZIP, &XML}},
	{"seaborn", {&PLOT}},
	{"plotly", {&PLOT}},
	{"bokeh", {&PLOT}},
	{"sqlalchemy", {&SQLITE}},
	{"psycopg2", {&SQLITE}},
	{"pymysql", {&SQLITE}},
	{"pydantic", {&DATACLASS}},
	{"attr", {&DATACLASS}},
	{"more_itertools", {&ITERTOOLS}},
	{"toolz", {&ITERTOOLS, &(const struct with){"functools", "reduce, lru_cache"}}},
	{"nltk", {&REGEX, &GROUPS}},
	{"spacy", {&REGEX, &GROUPS}},
	{"faker", {&(const struct with){"random", "random.choice"}}},
	{"fuzzywuzzy", {&(const struct with){"difflib", "SequenceMatcher(None, a, b).ratio()"}}},
	{"Levenshtein", {&(const struct with){"difflib", "SequenceMatcher(None, a, b).ratio()"}}},
	{"Crypto", {&(const struct with){"hashlib", "sha256(data).hexdigest()"}}},
	{"StringIO", {&(const struct with){"io", "io.StringIO"}}},
	{"ConfigParser", {&(const struct with){"configparser", "ConfigParser"}}},
	{"tabulate", {NULL}},
	{"prettytable", {NULL}},
	{"texttable", {NULL}},
	{"rich", {NULL}},
	{"termcolor", {NULL}},
	{"colorama", {NULL}},
	{"tqdm", {NULL}},
};

/* Where it is worth a look beside the row: what is often installed. */
static const char *const OTHERS[] = {
	"numpy", "pandas",   "scipy", "matplotlib", "sklearn", "sympy",    "networkx", "PIL",
	"bs4",   "openpyxl", "lxml",  "yaml",       "polars",  "requests", "seaborn",
};

/* Modules that are no use where there is no network. */
static const char *const DISTANT[] = {"requests", "httpx", "aiohttp", "urllib2", "urllib3", "bs4"};

void instead_release(struct instead *instead)
{
	free(instead->found);
	*instead = (struct instead){.found = NULL};
}

static const struct row *find_row(const char *module)
{
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++)
		if (strcmp(ROWS[i].module, module) == 0)
			return &ROWS[i];
	return NULL;
}

/* --- what is missing -------------------------------------------------------------------------- */

int instead_missing(const char *ename, const char *evalue, char name[static INSTEAD_NAME_MAX])
{
	static const char none[] = "No module named '";
	static const char optional[] = "Missing optional dependency '";
	const char *at = NULL;
	size_t len = 0;

	if (!ename || !evalue)
		return -1;
	if (strcmp(ename, "ModuleNotFoundError") == 0 && strncmp(evalue, none, strlen(none)) == 0)
		at = evalue + strlen(none);
	else if (strcmp(ename, "ImportError") == 0 && (at = strstr(evalue, optional)) != NULL)
		at += strlen(optional);
	if (!at)
		return -1;
	while (isalnum((unsigned char)at[len]) || at[len] == '_')
		len++;
	if (len == 0 || len >= INSTEAD_NAME_MAX || (at[len] != '\'' && at[len] != '.'))
		return -1;
	memcpy(name, at, len);
	name[len] = '\0';
	return 0;
}

/* --- looking ---------------------------------------------------------------------------------- */

void instead_probe(struct buf *code, const char *module)
{
	const struct row *row = find_row(module);

	buf_printf(code, "def _there():\n"
			 "    import importlib.util, os, socket, sys\n"
			 "    found = []\n"
			 "    for name in ('%s'",
		   module);
	for (size_t i = 0; row && i < WITH_MAX && row->with[i]; i++)
		buf_printf(code, ", '%s'", row->with[i]->name);
	for (size_t i = 0; i < sizeof(OTHERS) / sizeof(*OTHERS); i++)
		buf_printf(code, ", '%s'", OTHERS[i]);
	buf_printf(code,
		   "):\n"
		   "        try:\n"
		   "            if importlib.util.find_spec(name) is not None:\n"
		   "                found.append(name)\n"
		   "        except Exception:\n"
		   "            pass\n"
		   "    if 'HTTP_PROXY' in os.environ or any(\n"
		   "            name != 'lo' for _, name in socket.if_nameindex()):\n"
		   "        found.append('%s')\n"
		   "    sys.stdout.write('\\n%s %%s\\n' %% ' '.join(found))\n"
		   "_there()\n",
		   NETWORK, MARK);
}

/* Whether " a b " has the name between blanks. */
static bool has_name(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = names; (at = strstr(at, name)) != NULL; at += len)
		if (at > names && at[-1] == ' ' && at[len] == ' ')
			return true;
	return false;
}

int instead_read(struct instead *instead, const char *printed)
{
	const char *at = strstr(printed, MARK);

	if (!at)
		return -1;
	at += strlen(MARK);
	instead_release(instead);
	instead->found = mem_format("%.*s ", (int)strcspn(at, "\r\n"), at);
	instead->network = has_name(instead->found, NETWORK);
	return 0;
}

/* --- advice ----------------------------------------------------------------------------------- */

/* Whether a package is in "numpy, pandas". */
static bool is_listed(const char *modules, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = modules; *at; at += strspn(at, ", ")) {
		size_t word = strcspn(at, ", ");

		if (word == len && memcmp(at, name, len) == 0)
			return true;
		at += word;
	}
	return false;
}

static bool is_other(const char *name)
{
	for (size_t i = 0; i < sizeof(OTHERS) / sizeof(*OTHERS); i++)
		if (strcmp(OTHERS[i], name) == 0)
			return true;
	return false;
}

/* Where nobody has looked, what is in the standard library is there. */
static bool is_there(const struct instead *instead, const char *modules, const char *name)
{
	cleanup_free char *top = mem_copy(name, strcspn(name, "."));

	if (instead->found)
		return has_name(instead->found, name);
	return is_listed(modules, top) || !is_other(top);
}

static unsigned write_row(struct buf *out, const struct row *row, const struct instead *instead,
			  const char *modules)
{
	unsigned count = 0;

	for (size_t i = 0; row && i < WITH_MAX && row->with[i] && count < NAMED_MAX; i++) {
		const struct with *with = row->with[i];

		if (!is_there(instead, modules, with->name))
			continue;
		buf_printf(out, "%s%s (%s)", count ? ", " : " Use what is here: ", with->name,
			   with->how);
		count++;
	}
	if (count)
		buf_append_char(out, '.');
	return count;
}

/* "Use the standard library or numpy, pandas." */
static void write_others(struct buf *out, const struct instead *instead, const char *module,
			 const char *modules)
{
	unsigned count = 0;

	buf_append_string(out, " Use the standard library");
	if (!instead->found && *modules)
		buf_printf(out, " or one of %s", modules);
	for (size_t i = 0; instead->found && i < sizeof(OTHERS) / sizeof(*OTHERS); i++)
		if (strcmp(OTHERS[i], module) != 0 && has_name(instead->found, OTHERS[i]))
			buf_printf(out, "%s%s", count++ ? ", " : " or one of ", OTHERS[i]);
	buf_append_char(out, '.');
}

static bool is_distant(const char *module)
{
	for (size_t i = 0; i < sizeof(DISTANT) / sizeof(*DISTANT); i++)
		if (strcmp(DISTANT[i], module) == 0)
			return true;
	return false;
}

bool instead_is_there(const struct instead *instead, const char *module, const char *modules)
{
	return instead->found ? has_name(instead->found, module) : is_listed(modules, module);
}

void instead_advice(struct buf *out, const struct instead *instead, const char *module,
		    const char *modules)
{
	const struct row *row = find_row(module);

	if (instead_is_there(instead, module, modules)) {
		buf_printf(out, "%s is installed, but has no such part: do it another way.\n",
			   module);
		return;
	}
	buf_printf(out, "%s is not installed and cannot be: do not import it.", module);
	if (row && !row->with[0])
		buf_append_string(out, " Print with print() and f-strings alone.");
	else if (write_row(out, row, instead, modules) == 0)
		write_others(out, instead, module, modules);
	if (instead->found && !instead->network && is_distant(module))
		buf_append_string(out, " There is no network: only the files in the current folder "
				       "can be read.");
	buf_append_char(out, '\n');
}
