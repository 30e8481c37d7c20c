/** Finds and checks the files of the image model. */
import { existsSync } from 'node:fs'
import { access, readFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { DIMENSIONS } from '../embedding/mini-lm.ts'

export const PAINTER_FILE = 'painter.onnx'
export const DECODER_FILE = 'decoder.onnx'
const FACTS_FILE = 'pictogram.json'

const factsForm = z
  .object({
    /** Channels, rows and columns of the latent. */
    latent: z.tuple([z.int().min(1), z.int().min(1), z.int().min(1)]),
    /** The side of the square image, in pixels. */
    native: z.int().min(1),
    /** Maximum tokens of a prompt, including the start and end tokens. */
    words: z.int().min(3),
    /** Size of a token's vector from the sentence model. */
    dimensions: z.literal(DIMENSIONS),
    /** How the steps are spread over the time; see the sampler. */
    shift: z.number().positive(),
  })
  .transform(({ words, ...facts }) => ({ ...facts, maxTokens: words }))
export type ImageFacts = z.infer<typeof factsForm>

/** In this package. A bundle is one folder deep in it, the sources are three. */
export function findModelFolder(file: string): string {
  let folder = path.dirname(file)
  while (!existsSync(path.join(folder, 'package.json'))) {
    const above = path.dirname(folder)
    if (above === folder) throw new Error(`cannot find the image model: ${file} is in no package`)
    folder = above
  }
  return path.join(folder, 'models', 'pictogram')
}

/** Throws an error that names a missing file. */
export async function readModelFolder(folder: string): Promise<ImageFacts> {
  for (const name of [PAINTER_FILE, DECODER_FILE, FACTS_FILE]) {
    const file = path.join(folder, name)
    await access(file).catch(() => {
      throw new Error(`the image model is incomplete: ${file} is missing`)
    })
  }
  return factsForm.parse(JSON.parse(await readFile(path.join(folder, FACTS_FILE), 'utf8')))
}
