/** Reports a download in a few messages per second. */

const BYTES_PER_MB = 1_000_000
const PROGRESS_EVERY_MS = 500

/** `totalBytes` is null while it is unknown. */
export function byteProgress(
  what: string,
  progress: (message: string) => void,
): (doneBytes: number, totalBytes: number | null) => void {
  let reportedMs = Number.NEGATIVE_INFINITY
  return (done, total) => {
    if (performance.now() - reportedMs < PROGRESS_EVERY_MS) return
    reportedMs = performance.now()
    const ofTotal = total === null ? '' : ` of ${Math.ceil(total / BYTES_PER_MB)}`
    progress(`${what}, ${Math.floor(done / BYTES_PER_MB)}${ofTotal} MB`)
  }
}
