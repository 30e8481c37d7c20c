/** The engines that recipes start, one entry each. */
import type { RecipeName } from '../contract/recipe.ts'
import { mediaEngines } from './recipe-engine-media.ts'
import { textEngines } from './recipe-engine-text.ts'
import type { EngineRecipe } from './recipe-engine-type.ts'

export const engines: Readonly<Record<RecipeName, EngineRecipe>> = { ...textEngines, ...mediaEngines }
