"""x"""
def measure(say): return []
def table(path): return []
