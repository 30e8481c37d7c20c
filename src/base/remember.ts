/** Adds to a bounded map and evicts the oldest entry. */
export function remember<Value>(map: Map<string, Value>, key: string, value: Value, maxEntries: number): void {
  map.set(key, value)
  if (map.size <= maxEntries) return
  const [oldest] = map.keys()
  if (oldest !== undefined) map.delete(oldest)
}
