/**
 * Writes the console's font with the characters and weights of its own texts, less than half of the whole. Names with other
 * letters bring the whole font along (`unicode-range` in console/theme.css).
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import subsetFont from 'subset-font'

const WHOLE = 'node_modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2'
/** Named in console/theme.css and console/index.html. */
const FOLDER = 'node_modules/.cache/berth'

const ascii = Array.from({ length: 0x7f - 0x20 }, (_, at) => String.fromCodePoint(0x20 + at))
const characters = [...ascii, '\u00A0°·×–—‘’“”…←↑→↓−'].join('')

export async function writeConsoleFont(): Promise<void> {
  const font = await subsetFont(await readFile(WHOLE), characters, {
    targetFormat: 'woff2',
    variationAxes: { wght: { min: 400, max: 600 } },
  })
  await mkdir(FOLDER, { recursive: true })
  await writeFile(`${FOLDER}/inter.woff2`, font)
}
