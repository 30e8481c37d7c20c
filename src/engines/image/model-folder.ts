/** Finds and checks the files of the image model. */
import { existsSync } from 'node:fs'
import { access, readFile } from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { DIMENSIONS } from '../embedding/mini-lm.ts'

export const PAINTER_FILE = 'painter.onnx'
export const DECODER_FILE = 'decoder.onnx'
const FACTS_FILE = 'pictogram.json'

const factsForm = z.object({
  /** Channels, rows and columns of what is painted in, before it is decoded. */
  latent: z.tuple([z.int().min(1), z.int().min(1), z.int().min(1)]),
  /** The side of the square image, in pixels. */
  native: z.int().min(1),
  /** How many pieces of words the model reads, with those of the beginning and the end. */
  words: z.int().min(3),
  /** Of each piece: those of the model that reads the words. */
  dimensions: z.literal(DIMENSIONS),
  /** How the steps are spread over the time; see the sampler. */
  shift: z.number().positive(),
})
export type ImageFacts = z.infer<typeof factsForm>

/** In the package of which this file is a part: a bundle lies one folder deep in it, the sources three. */
export function findModelFolder(file: string): string {
  let folder = path.dirname(file)
  while (!existsSync(path.join(folder, 'package.json'))) {
    const above = path.dirname(folder)
    if (above === folder) throw new Error(`cannot find the image model: ${file} is in no package`)
    folder = above
  }
  return path.join(folder, 'models', 'pictogram')
}

/** Throws, with the name of the file, where one is missing. */
export async function readModelFolder(folder: string): Promise<ImageFacts> {
  for (const name of [PAINTER_FILE, DECODER_FILE, FACTS_FILE]) {
    const file = path.join(folder, name)
    await access(file).catch(() => {
      throw new Error(`the image model is incomplete: ${file} is missing`)
    })
  }
  return factsForm.parse(JSON.parse(await readFile(path.join(folder, FACTS_FILE), 'utf8')))
}
