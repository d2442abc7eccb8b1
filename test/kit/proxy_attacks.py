"""What has got round proxies with a list of allowed hosts before, and the reason for which each is
refused here. A port of an allowed server on the loopback stands for %d.
"""

RULES = "allowed.com,.allowed.org,localhost:%d"

HOSTS = {
    b"evil\0.allowed.com:443": "request_nul",
    b"allowed.com.evil.com:443": "not_allowed",
    b"allowed.evil.com:443": "not_allowed",
    b"evilallowed.org:443": "not_allowed",
    b"ALLOWED.COM.:443": "host_trailing_dot",
    b"allowed.com:22": "port_not_allowed",
    b"allowed.com:443@evil.com": "port",
    b"user@allowed.com:443": "host_bytes",
    b"127.1:443": "host_number",
    b"0x7f.1:443": "host_number",
    b"0x7f000001:443": "host_number",
    b"2130706433:443": "host_number",
    b"0177.0.0.1:443": "host_number",
    b"127.0.0.1:443": "not_allowed",
    b"169.254.169.254:80": "not_allowed",
    b"[::ffff:169.254.169.254]:80": "host_v4_in_v6",
    b"[::1]:443": "not_allowed",
    b"[fe80::1%25lo]:443": "host_zone",
    b"127.0.0.1.nip.io:443": "not_allowed",
    b"allowed.com\xe3\x80\x82:443": "host_bytes",
    b"xn--allowed.com:443": "not_allowed",
    b"allowed.com#.evil.com:443": "host_bytes",
    b"allowed.com%2eevil.com:443": "host_bytes",
    b".allowed.com:443": "host_label",
    b":443": "host_empty",
    b"allowed.com": "port",
}

REQUESTS_REFUSED = {
    "absolute-URI and Host differ":
        (b"GET http://localhost:%(port)d/a HTTP/1.1\r\nHost: evil.com\r\n\r\n", "request_host"),
    "absolute-URI of another host, Host of an allowed one":
        (b"GET http://evil.com/ HTTP/1.1\r\nHost: localhost:%(port)d\r\n\r\n", "request_host"),
    "two Hosts":
        (b"GET http://localhost:%(port)d/a HTTP/1.1\r\nHost: localhost:%(port)d\r\n"
         b"Host: evil.com\r\n\r\n", "request_host"),
    "CL and TE":
        (b"POST http://localhost:%(port)d/a HTTP/1.1\r\nHost: localhost:%(port)d\r\n"
         b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /b HTTP/1.1\r\n"
         b"\r\n", "request_framing"),
    "TE with a space before the colon":
        (b"POST http://localhost:%(port)d/a HTTP/1.1\r\nHost: localhost:%(port)d\r\n"
         b"Content-Length: 4\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "request_syntax"),
    "TE after a bare LF":
        (b"POST http://localhost:%(port)d/a HTTP/1.1\r\nHost: localhost:%(port)d\r\n"
         b"X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "request_line_end"),
    "TE folded":
        (b"POST http://localhost:%(port)d/a HTTP/1.1\r\nHost: localhost:%(port)d\r\n"
         b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "request_fold"),
    "two lengths":
        (b"POST http://localhost:%(port)d/a HTTP/1.1\r\nHost: localhost:%(port)d\r\n"
         b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", "request_framing"),
    "64 KB of header":
        (b"GET http://localhost:%(port)d/a HTTP/1.1\r\nHost: localhost:%(port)d\r\nX: " +
         b"x" * 65536 + b"\r\n\r\n", "request_size"),
    "no end of a header":
        (b"GET http://localhost:%(port)d/a HTTP/1.1\r\nX: " + b"x" * 200000, "request_size"),
    "101 headers":
        (b"GET http://localhost:%(port)d/a HTTP/1.1\r\nHost: localhost:%(port)d\r\n" +
         b"X: y\r\n" * 100 + b"\r\n", "request_headers"),
    "origin form":
        (b"GET /a HTTP/1.1\r\nHost: localhost:%(port)d\r\n\r\n", "request_form"),
    "https without a tunnel":
        (b"GET https://localhost:%(port)d/a HTTP/1.1\r\nHost: localhost:%(port)d\r\n\r\n",
         "request_scheme"),
    "HTTP/2":
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "request_version"),
    "SOCKS 4a":
        (b"\x04\x01\x01\xbb\0\0\0\x01\0allowed.com\0\r\n\r\n", "request_nul"),
    "TLS":
        (b"\x16\x03\x01\0\xf4\x01\0\0\xf0\x03\x03", "request_nul"),
}
