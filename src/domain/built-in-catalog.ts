/** The catalog of this version, which is in use unless an operator has set another. */
import file from './model-catalog.json' with { type: 'json' }
import { catalogFile } from '../contract/catalog.ts'

export const builtInCatalog = catalogFile.parse(file)
