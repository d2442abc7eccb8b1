"""pandas shows tables as in a notebook.

While it is imported, pandas looks whether get_ipython() has a kernel; if not, it takes the place
for a terminal and shows only as many columns as fit into its 80 characters, in HTML too. Nobody is
bound to such a width here, and a notebook shall have the tables it has elsewhere: 20 columns.
"""
__builtins__ = dict(__builtins__)

import sys

from fumehood_guest import imports

KEY = "display.max_columns"
COLUMNS = 20  # what pandas itself takes in a notebook


def _imported(_module):
    config = sys.modules.get("pandas._config.config")
    if config is None:  # a pandas before 1.0
        return
    options = getattr(config, "_registered_options", {})
    if KEY in options and hasattr(options[KEY], "_replace"):
        options[KEY] = options[KEY]._replace(defval=COLUMNS)  # for reset_option
    config.set_option(KEY, COLUMNS)


def install():
    """Before the session's code imports pandas, or after the zygote has."""
    imports.when_imported("pandas.core.config_init", _imported)
