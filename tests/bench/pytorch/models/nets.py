"""What every model shares: its networks, moved and widened together, and the update of one of them."""
from common import grads


class Nets:
    """A subclass sets self.nets, name to module, and self.opt, name to optimizer."""

    def to(self, device):
        for net in self.nets.values():
            net.to(device)
        return self

    def double(self):
        for net in self.nets.values():
            net.double()
        return self

    def update(self, name, loss, record):
        """Steps the optimizer of a net down the gradient of its loss, which is recorded."""
        self.opt[name].zero_grad(set_to_none=True)
        loss.backward(inputs=list(self.nets[name].parameters()))
        record.update([name], loss, grads(self.nets, [name]))
        self.opt[name].step()
