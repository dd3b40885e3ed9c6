#!/bin/sh
# lsp.sh - a session with the language server, over pipes.
. "$(dirname -- "$0")/lib.sh"
ganc=$(dirname -- "$ganrun")/ganc
say() { printf 'Content-Length: %d\r\n\r\n%s' "$(printf %s "$1" | wc -c)" "$1"; }
hello() { say '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'; }
look() { say '{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///m.gan","text":"model m oops"}}}'; }
bye() { say '{"jsonrpc":"2.0","id":2,"method":"shutdown"}'; say '{"jsonrpc":"2.0","method":"exit"}'; }
talk() { code=0; "$ganc" lsp <in >out 2>err || code=$?; [ ! -s err ] || fail 'something on standard error'; }

(hello; look; bye) >in
talk
[ "$code" = 0 ] || fail "exit code $code after a whole session"
prints '"id": 1'
prints 'publishDiagnostics.*E0'
prints '"id": 2'
[ "$(grep -c 'Content-Length: ' out)" = 3 ] || fail 'not three messages'

# Input that ends without `shutdown`; input that is not the protocol.
hello >in
talk
[ "$code" = 1 ] || fail "exit code $code without shutdown"
printf 'GET / HTTP/1.1\r\n\r\n' >in
talk
[ "$code" = 1 ] || fail "exit code $code for no message"
prints 'begins with its Content-Length'
refused 2 'takes no files; 1 given' ganc lsp m.gan
