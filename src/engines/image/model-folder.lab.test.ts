import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, expect, inject, test } from 'vitest'
import { pictogramFolder } from '../../../test/harness/pictogram.ts'
import { findModelFolder, readModelFolder } from './model-folder.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

const folder = mkdtempSync(path.join(os.tmpdir(), 'berth-model-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('finds the model in the package, from the sources and from a bundle', () => {
  const expected = path.resolve('models', 'pictogram')
  expect(findModelFolder(path.resolve('src', 'engines', 'image', 'main.ts'))).toBe(expected)
  expect(findModelFolder(path.resolve('dist', 'image-engine.mjs'))).toBe(expected)
  expect(findModelFolder(inject('serverBundle'))).toBe(expected)
  expect(() => findModelFolder('/image-engine.mjs')).toThrow('in no package')
})

test('reads the facts of the model and names a missing file', async () => {
  expect(await readModelFolder(pictogramFolder)).toMatchObject({ latent: [8, 32, 32], native: 512, maxTokens: 32 })
  writeFileSync(path.join(folder, 'painter.onnx'), '')
  await expect(readModelFolder(folder)).rejects.toThrow('decoder.onnx is missing')
  writeFileSync(path.join(folder, 'decoder.onnx'), '')
  await expect(readModelFolder(folder)).rejects.toThrow('pictogram.json is missing')
  writeFileSync(path.join(folder, 'pictogram.json'), '{"latent":[8,32],"native":512}')
  await expect(readModelFolder(folder)).rejects.toThrow('latent')
})
