// Usage: node tiktoken.mjs ENC INPUT.jsonl OUTPUT.jsonl
// As javascript.mjs, by npm "tiktoken" (Rust in WebAssembly), encode_ordinary: special tokens are plain text.
import fs from 'fs';
import { get_encoding } from 'tiktoken';
const [name, input, output] = process.argv.slice(2);
const encoding = get_encoding(name);
const fd = fs.openSync(output, 'w');
for (const line of fs.readFileSync(input, 'utf8').split('\n')) {
  if (line === '') continue;
  fs.writeSync(fd, JSON.stringify(Array.from(encoding.encode_ordinary(JSON.parse(line)))) + '\n');
}
fs.closeSync(fd);
encoding.free();
