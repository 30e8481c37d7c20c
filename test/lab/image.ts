/** The image of this checkout, built once per run by the first test that asks for it. */
import { existsSync } from 'node:fs'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { inject } from 'vitest'
import { buildImage } from '../../scripts/build-image.ts'
import type { Image } from '../../src/artifacts/oci/image-archive.ts'
import { imageFolder } from '../harness/global-setup.ts'
import { waitFor } from '../harness/wait.ts'

export interface TestImage extends Image {
  readonly file: string
}

const BUILD_MS = 10 * 60_000
/** The usual one takes a quarter of a minute of CPU time, and no test depends on it. */
const GZIP_LEVEL = 1

export async function testImage(): Promise<TestImage> {
  const dist = path.dirname(inject('serverBundle'))
  const folder = imageFolder(dist)
  const [file, facts] = ['berth.tar', 'berth.json'].map((name) => path.join(folder, name)) as [string, string]
  // The one that makes the folder builds; the others wait for the facts, or for its failure.
  const isFirst = await mkdir(folder).then(
    () => true,
    () => false,
  )
  if (isFirst) {
    const outcome = await buildImage({ root: path.resolve('.'), dist, target: file, gzipLevel: GZIP_LEVEL }).then(
      (image) => ({ image }),
      (error: unknown) => ({ error: String(error) }),
    )
    await writeFile(`${facts}.new`, JSON.stringify(outcome))
    await rename(`${facts}.new`, facts)
  }
  await waitFor('the image to be built', () => existsSync(facts), BUILD_MS)
  const { image, error } = JSON.parse(await readFile(facts, 'utf8')) as { image?: Image; error?: string }
  if (image === undefined) throw new Error(error)
  return { ...image, file }
}
