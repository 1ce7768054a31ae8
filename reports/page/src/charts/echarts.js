// The parts of Apache ECharts that the page uses.
import { init, use } from 'echarts/core';
import { BarChart, BoxplotChart, HeatmapChart, LineChart, ParallelChart, ScatterChart } from 'echarts/charts';
import {
  GridComponent, LegendComponent, MarkLineComponent, ParallelComponent, TooltipComponent, VisualMapComponent,
} from 'echarts/components';
import { CanvasRenderer } from 'echarts/renderers';

use([BarChart, BoxplotChart, HeatmapChart, LineChart, ParallelChart, ScatterChart, GridComponent, LegendComponent,
     MarkLineComponent, ParallelComponent, TooltipComponent, VisualMapComponent, CanvasRenderer]);

export { init };
