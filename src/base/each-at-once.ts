/** Runs `work` on all items, `width` at a time. The first error is thrown; items that have not begun are left out. */
export async function eachAtOnce<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = [...items]
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  try {
    await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker))
  } finally {
    queue.length = 0
  }
}
