/**
 * The file that a picture or a speech goes to. It is looked at before anything is paid for, and one that is there is
 * kept unless the command says otherwise.
 */
import fs from 'node:fs'
import path from 'node:path'
import { Option, type Command } from 'commander'
import { CliError, exitCodes } from './shell.ts'

export interface OutputOptions {
  readonly output: string
  readonly force?: true
}

export function addOutputOptions(command: Command, what: string): Command {
  return command
    .addOption(new Option('-o, --output <file>', `the file to write: ${what}`).makeOptionMandatory())
    .option('-f, --force', 'replace the file if it is there')
}

/** Throws when the file could not be written later. */
export function checkOutput({ output, force }: OutputOptions): void {
  if (force === undefined && fs.existsSync(output)) throw isThere(output)
  const folder = path.dirname(path.resolve(output))
  try {
    fs.accessSync(folder, fs.constants.W_OK)
  } catch {
    throw new CliError(exitCodes.failed, `Nothing can be written into ${folder}.`, [
      'Name another place with -o, or make the folder first.',
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
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw isThere(output)
    const why = error instanceof Error ? error.message : String(error)
    throw new CliError(exitCodes.failed, `${output} could not be written: ${why}.`, ['Name another place with -o.'])
  }
}

function isThere(file: string): CliError {
  return new CliError(exitCodes.failed, `${file} is there already.`, ['Name another with -o, or add --force.'])
}
