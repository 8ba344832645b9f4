// Usage: node rust.mjs TOKENIZER.json INPUT.jsonl OUTPUT.jsonl
// As javascript.mjs, by npm "tokenizers": Hugging Face's own Rust library (Oniguruma) behind its Node binding.
import fs from 'fs';
import { createRequire } from 'module';
const { Tokenizer } = createRequire(import.meta.url)('tokenizers');
const [model, input, output] = process.argv.slice(2);
const tokenizer = Tokenizer.fromFile(model);
const fd = fs.openSync(output, 'w');
for (const line of fs.readFileSync(input, 'utf8').split('\n')) {
  if (line === '') continue;
  const encoding = await tokenizer.encode(JSON.parse(line), null, { addSpecialTokens: false });
  fs.writeSync(fd, JSON.stringify(encoding.getIds()) + '\n');
}
fs.closeSync(fd);
