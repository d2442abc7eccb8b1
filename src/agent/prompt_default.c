/*
 * The built-in prompts.
 *
 * One short system prompt and four worked examples; measured against rules without examples, two
 * examples, and mixtures in doc/decisions/083-*. What the examples show is what rules alone did not
 * get from small models: no labels before a value, no comments (they cost a third of the tokens),
 * text in quotes is data and not a file, empty values are skipped, one line for each thing, a file
 * that is written. "Computes" is said, because a model that is only told to print what is asked
 * types the answer in. They are the same for all samples, so that a server has them in its cache.
 * The model ends at its closing fence by a stop text (answering.c), so nothing need be said about
 * explanations.
 *
 * It is JSON, as --template reads it, so that a file of one's own begins as a copy of this.
 */
#include "agent/prompt_default.h"

const char PROMPT_DEFAULT[] =
	"{\"variants\":[\n"
	"{\"system\":\"You write Python 3 programs. Answer with one complete program "
	"in a ```python block, nothing else. It runs once, in the current folder, without "
	"input. It computes everything itself and prints exactly what is asked, in the "
	"form asked, with no labels and no other words.\",\n"
	"\"examples\":[\n"
	"{\"user\":\"Task: Print the 3 longest words of the sentence \\\"every chemist "
	"keeps clean glassware\\\", longest first, one per line as word=length.\",\n"
	"\"assistant\":\"```python\\ntext = \\\"every chemist keeps clean glassware\\\"\\nwords "
	"= sorted(text.split(), key=len, reverse=True)\\nfor word in words[:3]:\\n   "
	" print(f\\\"{word}={len(word)}\\\")\\n```\"},\n"
	"{\"user\":\"Files in the current folder:\\n- people.csv (46 bytes):\\n    name,team,age\\n"
	"    Ann,red,31\\n    Bob,blue,\\n    ...\\n\\nTask: Read people.csv (columns "
	"name,team,age; rows without an age are skipped) and print for each team, sorted "
	"by name, a line with the team, a space and the mean age with 1 decimal.\",\n"
	"\"assistant\":\"```python\\nimport csv\\n\\nages = {}\\nwith open(\\\"people.csv\\\", "
	"newline=\\\"\\\") as file:\\n    for row in csv.DictReader(file):\\n        "
	"if row[\\\"age\\\"].strip():\\n            ages.setdefault(row[\\\"team\\\"], "
	"[]).append(float(row[\\\"age\\\"]))\\nfor team in sorted(ages):\\n    print(f\\\"{team} "
	"{sum(ages[team]) / len(ages[team]):.1f}\\\")\\n```\"},\n"
	"{\"user\":\"Task: Print the average of 3, 8 and 12.5 with 2 decimals.\",\n"
	"\"assistant\":\"```python\\nnumbers = [3, 8, 12.5]\\nprint(f\\\"{sum(numbers) "
	"/ len(numbers):.2f}\\\")\\n```\"},\n"
	"{\"user\":\"Files in the current folder:\\n- in.txt (18 bytes):\\n    4 apples\\n "
	"   17 pears\\n\\nTask: Add 1 to the number at the start of each line of in.txt, "
	"write the lines to out.txt and print how many lines there are.\",\n"
	"\"assistant\":\"```python\\nlines = []\\nwith open(\\\"in.txt\\\") as file:\\n "
	"   for line in file.read().splitlines():\\n        number, rest = line.split(\\\" "
	"\\\", 1)\\n        lines.append(f\\\"{int(number) + 1} {rest}\\\")\\nwith open(\\\"out.t"
	"xt\\\", \\\"w\\\") as file:\\n    file.write(\\\"\\\\n\\\".join(lines) + \\\"\\\\n\\\")\\n"
	"print(len(lines))\\n```\"}]}],\n"
	"\"task\":\"{workspace}{variables}{earlier}{input}Task: {instruction}{checks}\",\n"
	"\"repair\":\"That program failed.\\n{failure}{advice}Write the whole corrected "
	"program in one ```python block. It prints only what the task asks for, without "
	"labels.\",\n"
	"\"no_code\":\"There was no Python program in your answer. Write the whole program "
	"in one ```python block.\"}\n";
