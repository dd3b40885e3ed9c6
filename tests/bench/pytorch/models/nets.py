"""What every model shares: its networks, moved and widened together."""


class Nets:
    """A subclass sets self.nets: name to module."""

    def to(self, device):
        for net in self.nets.values():
            net.to(device)
        return self

    def double(self):
        for net in self.nets.values():
            net.double()
        return self
