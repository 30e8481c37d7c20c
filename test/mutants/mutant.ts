/**
 * A deliberate mistake in a driver of a cloud. Its `cloud.test.ts` must fail with it: a mistake that passes there would first
 * be seen on the vendor's bill. `npm run mutants` tries them all.
 */
export interface Mutant {
  /** Also the order in which they are tried. */
  readonly id: string
  /** The mistake, and what it would cost. */
  readonly mistake: string
  /** Below `src/drivers/clouds/`. */
  readonly file: string
  /** Occurs once in the file. */
  readonly find: string
  readonly replace: string
}

export const CLOUDS = 'src/drivers/clouds/'

/** The file with the mistake. */
export function mutate(source: string, { id, find, replace }: Mutant): string {
  const places = source.split(find)
  if (places.length !== 2) throw new Error(`The text of the mutant ${id} occurs ${places.length - 1} times.`)
  return places.join(replace)
}

/** The suite that must fail. */
export function suiteOf({ file }: Pick<Mutant, 'file'>): string {
  return `${CLOUDS}${file.split('/')[0] ?? ''}/cloud.test.ts`
}
