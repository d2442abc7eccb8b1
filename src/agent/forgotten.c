/*
 * See forgotten.h.
 *
 * CPython says "name 'csv' is not defined", and since 3.12 adds a question whether it was forgotten
 * to import it; only what is in the quotes is read. A name that several modules have is here only
 * where programs mean one of them.
 */
#include "agent/forgotten.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const MODULES[] = {
	"base64", "bisect", "calendar", "collections", "copy", "csv", "decimal", "fractions",
	"functools", "glob", "hashlib", "heapq", "io", "itertools", "json", "math", "matplotlib",
	"numpy", "operator", "os", "pandas", "pathlib", "random", "re", "shutil", "sqlite3",
	"statistics", "string", "struct", "sys", "textwrap", "time", "traceback", "unicodedata",
	"zipfile",
};

static const struct {
	const char *name, *statement;
} NAMES[] = {
	{"np", "import numpy as np"},
	{"pd", "import pandas as pd"},
	{"plt", "import matplotlib.pyplot as plt"},
	{"date", "from datetime import date"},
	{"timedelta", "from datetime import timedelta"},
	{"timezone", "from datetime import timezone"},
	{"Counter", "from collections import Counter"},
	{"OrderedDict", "from collections import OrderedDict"},
	{"defaultdict", "from collections import defaultdict"},
	{"deque", "from collections import deque"},
	{"namedtuple", "from collections import namedtuple"},
	{"accumulate", "from itertools import accumulate"},
	{"chain", "from itertools import chain"},
	{"combinations", "from itertools import combinations"},
	{"groupby", "from itertools import groupby"},
	{"permutations", "from itertools import permutations"},
	{"product", "from itertools import product"},
	{"reduce", "from functools import reduce"},
	{"itemgetter", "from operator import itemgetter"},
	{"Path", "from pathlib import Path"},
	{"Decimal", "from decimal import Decimal"},
	{"Fraction", "from fractions import Fraction"},
};

static bool is(const char *name, size_t len, const char *text)
{
	return strlen(text) == len && memcmp(name, text, len) == 0;
}

static int say(char *statement, const char *text)
{
	return snprintf(statement, FORGOTTEN_BYTES, "%s", text) < FORGOTTEN_BYTES ? 0 : -1;
}

int forgotten_import(const char *code, const char *ename, const char *evalue,
		     char statement[static FORGOTTEN_BYTES])
{
	static const char begin[] = "name '";
	const char *name;
	size_t len;

	if (!ename || !evalue || strcmp(ename, "NameError") != 0 ||
	    strncmp(evalue, begin, strlen(begin)) != 0 || strstr(code, "from __future__"))
		return -1;
	name = evalue + strlen(begin);
	len = strcspn(name, "'");
	/* The module, or the class of the same name in it: as the code uses it. */
	if (is(name, len, "datetime"))
		return say(statement, strstr(code, "datetime.datetime") ||
						      strstr(code, "datetime.date(") ||
						      strstr(code, "datetime.timedelta")
					      ? "import datetime"
					      : "from datetime import datetime");
	for (size_t i = 0; i < sizeof(MODULES) / sizeof(*MODULES); i++) {
		if (is(name, len, MODULES[i]))
			return snprintf(statement, FORGOTTEN_BYTES, "import %s", MODULES[i]) > 0
				       ? 0
				       : -1;
	}
	for (size_t i = 0; i < sizeof(NAMES) / sizeof(*NAMES); i++) {
		if (is(name, len, NAMES[i].name))
			return say(statement, NAMES[i].statement);
	}
	return -1;
}
