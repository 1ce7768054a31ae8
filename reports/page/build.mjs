// Bundles the page's script and style and inlines both into the template: node build.mjs SOURCES OUTPUT
// OUTPUT holds the installed packages (node_modules) and receives report.html.
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';

const [sources, output] = process.argv.slice(2).map((folder) => path.resolve(folder));
const esbuild = createRequire(path.join(output, 'package.json'))('esbuild');

async function bundle(entry) {
  const result = await esbuild.build({
    entryPoints: [path.join(sources, entry)],
    nodePaths: [path.join(output, 'node_modules')],
    bundle: true,
    write: false,
    minify: true,
    format: 'iife',
    target: ['chrome103', 'firefox113', 'safari16.4'],
    define: { 'process.env.NODE_ENV': '"production"' },
    legalComments: 'eof',
    logLevel: 'warning',
  });
  return result.outputFiles[0].text;
}

// A script ends at the first "</script" whatever stands around it; inside a string "<\/" means the same.
const script = (await bundle('main.js')).replace(/<\/(?=script)/gi, '<\\/').replaceAll('<!--', '<\\!--');
const style = await bundle('style.css');
const template = await readFile(path.join(sources, 'template.html'), 'utf8');
await writeFile(
  path.join(output, 'report.html'),
  template.replace('%STYLE%', () => style).replace('%SCRIPT%', () => script),
);
