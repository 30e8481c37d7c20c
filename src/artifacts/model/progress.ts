/** Adds up the progress of a pull over all of its pieces. */
import { addOrNull, type WantedFile } from './assemble.ts'

export function makeProgress(
  files: readonly WantedFile[],
  report: (doneBytes: number, totalBytes: number | null) => void,
): (file: string, piece: number, doneBytes: number, totalBytes: number | null) => void {
  // Progress counts transferred bytes, once their total is known: an archive is smaller than the file in it.
  const pieces = new Map<string, { readonly doneBytes: number; readonly totalBytes: number | null }>()
  for (const { file, pieces: ofFile } of files) {
    for (const [at, { bytes }] of ofFile.entries()) pieces.set(`${at}/${file}`, { doneBytes: 0, totalBytes: bytes })
  }
  return (file, piece, doneBytes, totalBytes) => {
    const previousTotal = pieces.get(`${piece}/${file}`)?.totalBytes ?? null
    pieces.set(`${piece}/${file}`, { doneBytes, totalBytes: totalBytes ?? previousTotal })
    const all = [...pieces.values()]
    const total = all.reduce<number | null>((sum, one) => addOrNull(sum, one.totalBytes), 0)
    report(
      all.reduce((sum, one) => sum + one.doneBytes, 0),
      total,
    )
  }
}
