/** The drawings of the training, where `prepare.mjs` has made them: what the judge sees in those is the most it can. */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import sharp from 'sharp'

interface Index {
  readonly concepts: ReadonlyArray<{ readonly name: string }>
  readonly sprites: ReadonlyArray<{ readonly concept: number; readonly offset: number; readonly bytes: number }>
}

const SIDE = 512
/** Of the side, as most single things of the training are. */
const DRAWN = 0.7

/** On white, one of each name; undefined: the data is not here. */
export async function readDrawings(names: readonly string[]): Promise<Map<string, Buffer> | undefined> {
  const folder = new URL('data/', import.meta.url)
  if (!existsSync(new URL('sprites.json', folder))) return undefined
  const { concepts, sprites } = JSON.parse(await readFile(new URL('sprites.json', folder), 'utf8')) as Index
  const all = await readFile(new URL('sprites.bin', folder))
  const drawings = new Map<string, Buffer>()
  for (const { concept, offset, bytes } of sprites) {
    const name = concepts[concept]?.name ?? ''
    if (!names.includes(name) || drawings.has(name)) continue
    const size = Math.round(SIDE * DRAWN)
    const input = await sharp(all.subarray(offset, offset + bytes))
      .resize(size, size)
      .png()
      .toBuffer()
    const ground = sharp({ create: { width: SIDE, height: SIDE, channels: 3, background: '#fff' } })
    drawings.set(name, await ground.composite([{ input }]).png().toBuffer())
  }
  return drawings
}
