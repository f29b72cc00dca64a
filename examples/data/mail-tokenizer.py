"""Learns mail-tokenizer.json, 3,000 pieces of words, of texts in a file of JSON strings, one a line:

    npx tsx -e 'import { mails } from "./examples/mail.ts"; for (const { text } of mails()) console.log(JSON.stringify(text))' > mails.jsonl
    python3 -m venv .heddle/tokenizers && .heddle/tokenizers/bin/pip install tokenizers==0.23.2
    .heddle/tokenizers/bin/python examples/data/mail-tokenizer.py mails.jsonl
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
tokenizer.decoder = decoders.WordPiece()
with open(sys.argv[1], encoding="utf8") as lines:
    texts = [json.loads(line) for line in lines]
special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
trainer = trainers.WordPieceTrainer(vocab_size=3000, special_tokens=special, limit_alphabet=100, show_progress=False)
tokenizer.train_from_iterator(texts, trainer)
tokenizer.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", special_tokens=[(name, tokenizer.token_to_id(name)) for name in ["[CLS]", "[SEP]"]])
tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
path = Path(__file__).parent / "mail-tokenizer.json"
path.write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n")
