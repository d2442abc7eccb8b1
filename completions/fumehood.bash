# Completion of fumehood(1) for bash(1). Installed as bash-completion's completions/fumehood; else source it.
#
# Commands and options are asked of fumehood itself (`fumehood help`), so that this file cannot be out of date;
# names of sessions are the entries of its directory by-name, which costs nothing.

_fumehood_commands() {
	"$1" help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

_fumehood_options() {
	"$1" help "$2" 2>/dev/null | grep -E '^ +-' | grep -oE -- '--[a-z][a-z0-9-]*' | sort -u
	printf '%s\n' --help
}

_fumehood_sessions() {
	local directory=${XDG_STATE_HOME:-$HOME/.local/state}/fumehood/by-name name
	for name in "$directory"/*; do
		[ -L "$name" ] && printf '%s\n' "${name##*/}"
	done
}

# Names of the checkpoints of a session that runs.
_fumehood_checkpoints() {
	"$1" checkpoints "$2" --json 2>/dev/null | grep -oE '"name":"[A-Za-z0-9._-]+"' | cut -d'"' -f4
}

# Names of models, those that are here and those that can be fetched.
_fumehood_models() {
	"$1" model list --json 2>/dev/null | grep -oE '^\{"name":"[A-Za-z0-9._-]+"' | cut -d'"' -f4
}

# Sets COMPREPLY to the lines of stdin that begin with the word; blanks and quotes in them are escaped.
_fumehood_reply() {
	local line
	while IFS= read -r line; do
		[[ $line == "$1"* ]] && COMPREPLY+=("$(printf '%q' "$line")")
	done
}

# Sets COMPREPLY to files that begin with the word and end so (all directories, to go on).
_fumehood_files() {
	local path pattern=$2
	compopt -o filenames 2>/dev/null
	while IFS= read -r path; do
		if [[ -d $path || $path =~ $pattern ]]; then
			COMPREPLY+=("$path")
		fi
	done < <(compgen -f -- "$1")
}

_fumehood() {
	local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} word=${COMP_WORDS[COMP_CWORD]}
	local before=${COMP_WORDS[COMP_CWORD - 1]}

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_fumehood_reply "$word" < <(_fumehood_commands "$program"; printf '%s\n' --help --version)
		return
	fi
	case $before in
	-s | --session)
		_fumehood_reply "$word" < <(_fumehood_sessions)
		return
		;;
	--policy)
		_fumehood_files "$word" '\.json$'
		return
		;;
	--read | --write)
		_fumehood_files "$word" ''
		return
		;;
	--tier-floor)
		_fumehood_reply "$word" < <(printf '%s\n' full degraded)
		return
		;;
	-w | --workspace | --cwd)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -d -- "$word")
		return
		;;
	--python | -f | --parameters-file | --parameters_file)
		_fumehood_files "$word" ''
		return
		;;
	-o | --output)
		_fumehood_files "$word" '\.ipynb$'
		return
		;;
	-m | --model)
		_fumehood_reply "$word" < <(_fumehood_models "$program")
		_fumehood_files "$word" '\.gguf$'
		return
		;;
	--drop | --from)
		if [[ $command == model ]]; then
			_fumehood_reply "$word" < <(printf '%s\n' hub packages)
			return
		fi
		_fumehood_reply "$word" < <(_fumehood_checkpoints "$program" "${COMP_WORDS[2]}")
		return
		;;
	--files)
		_fumehood_reply "$word" < <(printf '%s\n' yes no)
		return
		;;
	--rolled-back)
		_fumehood_reply "$word" < <(printf '%s\n' omit keep)
		return
		;;
	--durability)
		_fumehood_reply "$word" < <(printf '%s\n' process power)
		return
		;;
	--effort)
		_fumehood_reply "$word" < <(printf '%s\n' low medium high)
		return
		;;
	--attempts)
		_fumehood_reply "$word" < <(printf '%s\n' show hide)
		return
		;;
	--script | --template)
		_fumehood_files "$word" ''
		return
		;;
	--tier)
		_fumehood_reply "$word" < <(printf '%s\n' full none)
		return
		;;
	--type)
		_fumehood_reply "$word" < <(printf '%s\n' markdown raw code)
		return
		;;
	esac
	if [[ $word == -* ]]; then
		_fumehood_reply "$word" < <(_fumehood_options "$program" "$command")
		return
	fi
	case $command in
	run)
		_fumehood_files "$word" '\.(py|ipynb)$'
		;;
	help)
		_fumehood_reply "$word" < <(_fumehood_commands "$program")
		;;
	doctor)
		_fumehood_reply "$word" < <(printf '%s\n' system sandbox programs directories disk limits python \
			session fonts records models environments)
		;;
	model)
		if ((COMP_CWORD == 2)); then
			_fumehood_reply "$word" < <(printf '%s\n' list pull use test path rm status stop engine)
		elif ((COMP_CWORD == 3)); then
			_fumehood_reply "$word" < <(_fumehood_models "$program")
			[[ ${COMP_WORDS[2]} == use || ${COMP_WORDS[2]} == test ]] && _fumehood_files "$word" '\.gguf$'
		fi
		;;
	pool)
		_fumehood_reply "$word" < <(printf '%s\n' list stop)
		;;
	token)
		((COMP_CWORD == 2)) && _fumehood_reply "$word" < <(printf '%s\n' create list revoke)
		;;
	sandbox)
		((COMP_CWORD == 2)) && _fumehood_reply "$word" < <(printf '%s\n' run explain schema)
		;;
	limits)
		if ((COMP_CWORD == 2)); then
			_fumehood_reply "$word" < <(_fumehood_sessions)
		else
			compopt -o nospace 2>/dev/null
			_fumehood_reply "$word" < <(printf '%s=\n' wall_s output_bytes background_bytes queue \
				record_bytes processes files file_bytes tmp_bytes checkpoints)
		fi
		;;
	stop | gc)
		_fumehood_reply "$word" < <(_fumehood_sessions)
		;;
	files)
		if ((COMP_CWORD == 2)); then
			_fumehood_reply "$word" < <(_fumehood_sessions)
		elif ((COMP_CWORD == 3)); then
			_fumehood_reply "$word" < <(printf '%s\n' ls get put rm zip unzip diff apply discard)
		elif [[ ${COMP_WORDS[3]} == put || ${COMP_WORDS[3]} == unzip ]]; then
			_fumehood_files "$word" ''
		fi
		;;
	rollback)
		if ((COMP_CWORD == 2)); then
			_fumehood_reply "$word" < <(_fumehood_sessions)
		elif ((COMP_CWORD == 3)); then
			_fumehood_reply "$word" < <(_fumehood_checkpoints "$program" "${COMP_WORDS[2]}")
		fi
		;;
	checkpoint | checkpoints | reset | fork)
		((COMP_CWORD == 2)) && _fumehood_reply "$word" < <(_fumehood_sessions)
		;;
	log | text | export | complete | inspect | variables | images | section | note | interrupt | restart)
		((COMP_CWORD == 2)) && _fumehood_reply "$word" < <(_fumehood_sessions)
		;;
	esac
}

complete -F _fumehood fumehood
