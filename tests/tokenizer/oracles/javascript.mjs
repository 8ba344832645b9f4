// Usage: node javascript.mjs TOKENIZER.json INPUT.jsonl OUTPUT.jsonl
// One JSON string a line in, one JSON array of ids a line out (no special tokens added), by @huggingface/tokenizers.
import fs from 'fs';
import { Tokenizer } from '@huggingface/tokenizers';
const [model, input, output] = process.argv.slice(2);
const tokenizer = new Tokenizer(JSON.parse(fs.readFileSync(model, 'utf8')), {});
const fd = fs.openSync(output, 'w');
for (const line of fs.readFileSync(input, 'utf8').split('\n')) {   // not readline: U+2028 must not end a line
  if (line === '') continue;
  const { ids } = tokenizer.encode(JSON.parse(line), { add_special_tokens: false });
  fs.writeSync(fd, JSON.stringify(ids) + '\n');
}
fs.closeSync(fd);
