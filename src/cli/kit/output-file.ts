/**
 * The file that an image or speech is written to. It is checked before anything is charged, and an existing one is
 * replaced only with --force.
 */
import fs from 'node:fs'
import path from 'node:path'
import { CliError, exitCodes } from './shell.ts'
import type { Options } from './row-type.ts'

export interface OutputOptions {
  readonly output: string
  readonly force?: true
}

export function outputOptions(format: string): Options {
  return {
    '-o, --output <file>': { help: `${format} file to write`, required: true },
    '-f, --force': 'replace the file if it exists',
  }
}

/** Throws if the file cannot be written. */
export function checkOutput({ output, force }: OutputOptions): void {
  if (force === undefined && fs.existsSync(output)) throw exists(output)
  const folder = path.dirname(path.resolve(output))
  try {
    fs.accessSync(folder, fs.constants.W_OK)
  } catch {
    throw new CliError(exitCodes.failed, `Cannot write to the folder ${folder}.`, [
      'Choose another file with -o, or create the folder first.',
    ])
  }
  if (fs.statSync(output, { throwIfNoEntry: false })?.isDirectory() === true) {
    throw new CliError(exitCodes.failed, `${output} is a folder.`, ['Name a file in it with -o.'])
  }
}

export function writeOutput({ output, force }: OutputOptions, bytes: Uint8Array): void {
  try {
    fs.writeFileSync(output, bytes, { flag: force === true ? 'w' : 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw exists(output)
    const cause = error instanceof Error ? error.message : String(error)
    throw new CliError(exitCodes.failed, `Cannot write ${output}: ${cause}.`, ['Choose another file with -o.'])
  }
}

function exists(file: string): CliError {
  return new CliError(exitCodes.failed, `${file} already exists.`, ['Choose another file with -o, or add --force.'])
}
