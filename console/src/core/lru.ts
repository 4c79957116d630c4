/** A map that forgets what was not used for the longest time. */
export class Lru<K, V> {
  private readonly kept = new Map<K, V>();

  constructor(private readonly most: number) {}

  get size(): number {
    return this.kept.size;
  }

  get(key: K): V | undefined {
    const found = this.kept.get(key);
    if (found !== undefined) {
      this.kept.delete(key);
      this.kept.set(key, found);
    }
    return found;
  }

  has(key: K): boolean {
    return this.kept.has(key);
  }

  set(key: K, value: V): void {
    this.kept.delete(key);
    this.kept.set(key, value);
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= this.most) break;
      this.kept.delete(oldest);
    }
  }

  delete(key: K): void {
    this.kept.delete(key);
  }

  values(): IterableIterator<V> {
    return this.kept.values();
  }
}
