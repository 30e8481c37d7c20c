/** Where tests find the picture model. */
import path from 'node:path'

export const pictogramFolder = path.resolve('models', 'pictogram')
