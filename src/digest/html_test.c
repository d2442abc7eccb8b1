/*
 * Tests of HTML as text.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "digest/html.h"

static void check(const char *html, const char *expected)
{
	struct screen screen;
	struct piece piece;

	screen_init(&screen, 1000);
	html_text(html, strlen(html), &screen);
	piece = screen_piece(&screen, NULL);
	assert_string_equal(piece.text, expected);
	piece_release(&piece);
	screen_release(&screen);
}

static void strips(void **state)
{
	(void)state;
	check("", "");
	check("plain", "plain");
	check("<b>three</b> and  <i>four</i>\n", "three and four");
	check("<p>one</p><p>two</p>", "one\ntwo\n");
	check("a<br/>b<BR>c", "a\nb\nc");
	check("<ul><li>x<li>y</ul>", "- x\n- y\n");
	check("<table><tr><th>a</th><th>b</th></tr>\n<tr><td>1</td> <td>2</td></tr></table>",
	      "a | b\n1 | 2\n");
	check("<style>p {}</style>x<script>if (a < b) '</p>'</script>y", "xy");
	check("<!-- <b>no</b> -->x<!DOCTYPE html>y<?php z ?>", "xy");
	check("<a title='1 > 0' href=\"x\">link</a>", "link");
	check("<pre>a  b\n  c</pre>d", "a  b\n  c\nd");
}

static void resolves_references(void **state)
{
	(void)state;
	check("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d");
	check("&#65;&#x42;&#X43; &eacute; &;&", "ABC &eacute; &;&");
	check("1&nbsp;000 &times; 2", "1 000 \xc3\x97 2");
	check("&#0; &#x110000; &#99999999;", "&#0; &#x110000; &#99999999;");
	check("&#27;[31mred", "red");
}

static void bears_what_is_broken(void **state)
{
	(void)state;
	check("1 < 2 and <3", "1 < 2 and <3");
	check("x<", "x<");
	check("x</", "x</");
	check("x<b", "x");
	check("x<a href=\"never", "x");
	check("x<!--", "x");
	check("x<script>y", "x");
	check("x<script>y</scr", "x");
	check("</pre></pre>a  b", "a b");
	check("<averyveryverylongtagname>x", "x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strips),
		cmocka_unit_test(resolves_references),
		cmocka_unit_test(bears_what_is_broken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
