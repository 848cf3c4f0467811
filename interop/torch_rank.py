"""A process of torch.distributed in a guest: a model is trained through the switch, and every process has the same bits."""
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
os.environ.setdefault("WEIR_INC_LIBRARY", os.path.join(here, "libweir_inc.so"))
import torch
import torch.distributed as dist
import weir_inc.torch

index, hosts, controller, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]  # store: HOST:PORT of rank 0
weir_inc.torch.register(controller, token="s3cret", job="torch", window=64, join_timeout=120, result_timeout=60)
dist.init_process_group("weir", init_method=f"tcp://{store}", rank=index, world_size=hosts)

data = torch.arange(1000, dtype=torch.int64) * (index + 1)
dist.all_reduce(data)
assert torch.equal(data, torch.arange(1000) * (hosts * (hosts + 1) // 2)), "i64 sums differ"
parts = [torch.empty(3, dtype=torch.uint8) for _ in range(hosts)]
dist.all_gather(parts, torch.full((3,), index, dtype=torch.uint8))
assert [part.tolist() for part in parts] == [[other] * 3 for other in range(hosts)], parts

torch.manual_seed(index)  # parameters differ until they are broadcast, data to the end
model = torch.nn.Sequential(torch.nn.Linear(30, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for _ in range(20):
    x = torch.randn(32, 30)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach_(), dist.ReduceOp.AVG)
    losses.append(loss.item())
own = torch.cat([parameter.detach().view(-1) for parameter in model.parameters()])
every = [torch.empty_like(own) for _ in range(hosts)]
dist.all_gather(every, own)
assert all(torch.equal(own, other) for other in every), "processes have other bits"
assert losses[-1] < losses[0], losses
dist.barrier()
print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}; all right", flush=True)
