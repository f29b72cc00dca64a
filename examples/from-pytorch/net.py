"""A small PyTorch network, its weights as safetensors, and what it says about two images.

    python examples/from-pytorch/net.py      # needs PyTorch; writes net.safetensors beside itself

The file is what `safetensors.torch.save_file(net.state_dict(), path)` writes, with the inputs and outputs as two more entries.
"""

import json
import struct
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 8, 3, stride=2)
        self.fc = nn.Linear(8 * 3 * 3, 10)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.tanh(self.conv2(x))
        return self.fc(x.flatten(1))


net = Net().eval()
images = torch.rand(2, 1, 14, 14)
with torch.no_grad():
    entries = {**net.state_dict(), "example.images": images, "example.logits": net(images)}

header, data = {}, b""
for name, tensor in entries.items():
    raw = tensor.contiguous().numpy().astype("<f4").tobytes()
    header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
path = Path(__file__).parent / "net.safetensors"
path.write_bytes(struct.pack("<Q", len(text)) + text + data)
print(f"{path.name}: {path.stat().st_size} bytes, PyTorch {torch.__version__}")
