/** The type of a row in the table of pages. */
import type { ComponentType } from 'react'
import type { Scope } from '../src/contract/endpoint.ts'
import { searchReader, type SearchReader } from './search.ts'
import type { IconName } from './ui/icon.tsx'

/** Pages in `Home` have no heading above them. */
export const sections = ['Home', 'Machines', 'Models', 'Account', 'Supply', 'Operator'] as const
type Section = (typeof sections)[number]

export interface PageRow<Path extends string = string, Search extends object = object> {
  readonly path: Path
  readonly title: string
  /** The page's section in the navigation, or the page that leads to it. */
  readonly in: Section | `/${string}`
  /** The icon in the navigation and in search results. */
  readonly icon?: IconName
  /** The page is in the navigation for keys with one of these scopes. */
  readonly scopes: readonly [Scope, ...Scope[]]
  /** In the navigation only for people, not for keys. */
  readonly forPeople?: true
  readonly search: SearchReader<Search>
  readonly load: () => Promise<ComponentType>
}

const noSearch = searchReader({})

export function page<const Path extends string, Search extends object = object>(
  row: Omit<PageRow<Path, Search>, 'search'> & { readonly search?: SearchReader<Search> },
): PageRow<Path, Search> {
  return { search: noSearch as SearchReader<Search>, ...row }
}
